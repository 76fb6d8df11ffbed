"""Campaigns: one table of the answers to many questions, which are all combinations of the values of a few axes.

A *cell* is a question to any problem of the registry: a problem's name and its options, by the values of the axes. The
options are judged by the problem itself, so that a new problem can be a cell as soon as it is registered, and this
package names none.

A campaign does not search. It is a problem by contract all the same (:mod:`dse.problem`): it is posed by a file, has an
answer that is checked without the run that made it, lives in a run directory, and is the same for any number of
workers. So its command, its function in Python, journal, mirror, ``--resume``, ``report`` and ``compare`` are those of
every problem. Its objective counts the cells that are *settled*: proven optimal, or proven infeasible. Their number is
the bound, and the status ``optimal`` says that no cell is open.

- :mod:`~dse.campaign.document` is the file; :mod:`~dse.campaign.axes` and :mod:`~dse.campaign.cells` make cells of it.
- :mod:`~dse.campaign.posing` judges the values of all axes before any cell is answered.
- :mod:`~dse.campaign.solve` answers cells over an executor. A cell depends on its own options and on the seed alone,
  and never on the cells before it: what they share is what the packages remember (:mod:`dse.run.remembered`), which
  makes a cell faster and changes no digit of its answer. A finished cell is journalled by its content, so that a
  changed file answers only what is new.
- :mod:`~dse.campaign.choices` compares choices: which one is best where, and what one choice for all conditions loses.
- :mod:`~dse.campaign.check` answers a random share of the cells again, each alone.
"""

COMMAND = "campaign"
SUMMARY = "Answer every combination of models, chips and workloads, in one table."
RANK = 24
