"""Serving: latency and throughput of a language model that answers requests on a machine, and the best configuration.

Terms, as this field uses them: TTFT is the time from sending a request to its first token; TPOT of a request is
(latency − TTFT) / (output tokens − 1); a *rank* is one of the ``attention_data`` groups of ``tensor`` chips, each with
requests of its own.

How data flows::

    model, shape, engine, chip ─ step_work ─► StepTables      seconds of the parts of a step, by tokens and context
    StepTables, load           ─ steady_state ─► means        closed form: steps of a full batch, work conservation
    StepTables, load           ─ events ─► every request      requests, scheduler, chunks, KV memory, one step at a time
    vocabulary ─ closed_form ─► search ─► the best, proven; ─ repricing ─► what clients see, and whether the order holds

A step computes ``T`` new tokens of a rank: the next token of ``b`` requests that decode, and parts of prompts. Its
seconds are

    kernels · (linear(T) + decode(b, x) + Σ prefill(past, new)) + starts · fixed times of these kernels
    + collectives · exchange(T) + small · layers + host

where x is the mean context of the ``b`` requests. The functions are tables made from kernel times by shape
(:mod:`hardware.kernel_model`); factors, small and host are the constants of an engine (:mod:`dse.serve.engine`),
fitted to measured runs that a committed file names.

With speculation a step verifies drafts (:mod:`dse.serve.speculation`).
Prefill and decode workers apart have both levels too (:mod:`dse.serve.disaggregated`), and a configuration is launched
by what :mod:`dse.serve.export` writes.

Both levels read the same tables, so that they agree where they must: with one request at a time.
"""

COMMAND = "serve"
SUMMARY = "Find the best configuration to serve a language model, with its latency, throughput and price."
RANK = 25
