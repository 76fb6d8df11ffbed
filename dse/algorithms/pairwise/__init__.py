"""Pairwise choice problems: one choice for each node, at the least node and edge costs, within memory over time.

The problem of the ASPLOS 2025 / EuroSys 2025 contest on Intra-Operator Parallelism for Distributed Deep Learning
(IOPDDL), and of the integer programs by which Alpa and XLA's auto-sharding choose a sharding for every tensor. Without
the memory limit it is the energy minimisation of pairwise graphical models (weighted constraint satisfaction), whose
methods are used. Nothing here knows of tensors.

Modules, in the order in which data flows:

* ``problem``: the problem in whole numbers, checked when it is built; ``iopddl``: its files, and those of solutions.
* ``evaluate``: what choices cost and use, from the definition; the checker, which shares nothing with the solvers.
* ``core``: the form for solvers: memory as rows, one for each maximal set of nodes that are live together.
* ``reduction``: a smaller core with the same optimum, and the way back.
* ``linear_model``, ``highs``: the pairwise linear program and the mixed-integer program, by HiGHS through MathOpt.
* ``message_passing``: a dual solution of that linear program where it is too large for a simplex method.
* ``certificate``: from any dual solution, a bound proven in integers, and what no better plan contains.
* ``local_search``: good plans by simulated annealing, from a seed.
* ``contraction``: forbidden pairs removed exactly, by making one node of two; the form for large problems.
* ``legal_start``, ``priced_messages``, ``priced_bound``, ``anytime``: plans and bounds of problems that are too large
  for the rest and in which memory binds at nearly every time.
* ``search``: all of it together in a reduced core, within limits in numbers of steps; ``solve``: a problem.

What is proven: a bound is exact integer arithmetic from the first step to the last wherever messages or the linear
program close the gap, as they do on most problems of this kind. Where branching is needed, the last part of the proof
is HiGHS's, in floating point. It runs on differences from the certified bound instead of costs, and is trusted to 1e-9
of the largest of them: plans are proven to the unit where the gap before branching is below 1e9 units, and otherwise
the bound that is stated lacks the rest.

Why this order: reduction costs little and shrinks sharding problems three to four times. Messages take milliseconds and
come close to the linear program, which in turn is integral more often than not. A cutoff a little above their bound
forbids nearly every choice that no better plan has; then the reduction shrinks the rest again, so that the linear
program and the branch and bound, if they are needed at all, see a small problem, which contains the best plan or proves
that there is none below the cutoff. On T5 (6 + 6 layers) over 4 × 8 devices, 1.2 million choices and pairs after
reduction, the guess that finds the best plan leaves some ten thousand.
"""
