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
* ``solve``: all of it together, with limits in numbers of steps, so that answers do not depend on the machine.

What is proven: a bound is exact integer arithmetic from the first to the last step wherever the linear program closes
the gap, which it does on most problems of this kind after reduction. Where branching is needed, the last part of the
proof is HiGHS's, in floating point; it runs on costs from which the certificate has taken everything but the gap.

Why this order: reduction costs little and shrinks sharding problems three to four times. The linear relaxation of what
is left is integral more often than not. Its dual solution, with a plan from its primal one, forbids nearly every choice
that is not in that plan, after which the reduction shrinks the rest again, so that the branch and bound, if it is
needed at all, sees a small problem.
"""
