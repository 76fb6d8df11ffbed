"""CP-SAT with the house's rules: one thread, a seed and a deterministic limit, so that answers are the same anywhere.

Only what tells it to stop, a user's time limit or Ctrl-C, depends on the clock.
"""

from concurrent.futures import ThreadPoolExecutor, wait

from ortools.sat.python import cp_model

from dse.run.progress import StopSignal, never_stop

_ASKED_EVERY_S = 0.05


def solved(
    model: cp_model.CpModel,
    deterministic_time: float,
    seed: int = 0,
    stop: StopSignal = never_stop,
    linearization: int = 1,
) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
    """(the solver with its solution, its status).

    Args:
        model: what is to be solved.
        deterministic_time: when to end, in CP-SAT's deterministic seconds, of the order of real ones.
        seed: of CP-SAT.
        stop: called meanwhile; a reason ends the search with the best so far.
        linearization: CP-SAT's ``linearization_level``: 2 puts products of decisions into the linear relaxation too.
    """
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed % 2**31
    solver.parameters.linearization_level = linearization
    solver.parameters.max_deterministic_time = deterministic_time
    # In a thread of its own, because signals reach Python in the main thread only, between two lines of Python.
    solver.parameters.catch_sigint_signal = False
    with ThreadPoolExecutor(1) as thread:
        status = thread.submit(solver.solve, model)
        try:
            while not wait([status], _ASKED_EVERY_S).done:
                if stop() is not None:
                    solver.stop_search()
        except BaseException:
            # It may not have begun yet, and must not be waited for.
            while not wait([status], _ASKED_EVERY_S).done:
                solver.stop_search()
            raise
        return solver, status.result()
