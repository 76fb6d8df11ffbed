import math

from hypothesis import given, settings
from hypothesis import strategies as st

from dse.placement.check import gradient_sync_s
from dse.placement.search.pipelines import GradientSync, gradient_sync, pipeline_choices, pipeline_ranges
from tests.placement.strategies import NODES, chain_of


@settings(max_examples=300)
@given(
    st.integers(1, 300),
    st.integers(1, 300),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sampled_from([0.0, 0.3, 1.0, 40.0]),
    NODES | st.builds(dict, node_accelerators=st.integers(1, 64), node_bytes_per_s=st.floats(0.1, 100)),
    st.sampled_from([1, 2, 3]),
)
def test_some_choice_is_as_good_as_any_number_of_pipelines(microbatches, limit, load_s, first_bytes, node, tensor):
    problem = chain_of([(1.0, 1.0)], microbatches=microbatches, network_bytes_per_s=1.0, **node)
    choices = pipeline_choices(microbatches, gradient_sync(problem, tensor), [0, limit])
    assert choices.offset[1] == 0, "no pipelines fit a limit of zero"

    def batch_s(data):
        rounds = math.ceil(microbatches / data)
        return load_s * (rounds + 3) + gradient_sync_s(problem, tensor, data, first_bytes)

    best = min(map(batch_s, range(1, min(microbatches, limit) + 1)))
    offered = min(
        load_s * (rounds + 3) + sync * first_bytes
        for rounds, sync in zip(choices.rounds, choices.sync_s_per_byte, strict=True)
    )
    assert math.isclose(best, offered, rel_tol=1e-12)
    assert all(
        rounds == math.ceil(microbatches / data) for data, rounds in zip(choices.data, choices.rounds, strict=True)
    )


def test_few_numbers_of_pipelines_are_worth_trying():
    assert len(pipeline_choices(4096, GradientSync(1.0), [1023]).data) < 12


@given(st.integers(1, 500), st.integers(1, 500))
def test_ranges_of_gpipe_are_the_smallest_d_of_each_round(microbatches, limit):
    problem = chain_of([(1.0, 1.0)], microbatches=microbatches, pipeline_schedule="gpipe")
    smallest = {}
    for data in range(1, min(limit, microbatches) + 1):
        smallest.setdefault(math.ceil(microbatches / data), data)
    ranges = pipeline_ranges(problem, limit)
    assert [(each.stashes, each.min_data, each.max_data) for each in ranges] == [
        (rounds, data, data) for rounds, data in sorted(smallest.items())
    ]
    assert {each.growth for each in ranges} == {0}
