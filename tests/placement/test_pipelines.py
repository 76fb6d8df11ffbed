import math

from hypothesis import given
from hypothesis import strategies as st

from dse.placement.pipelines import pipeline_choices


@given(
    st.integers(1, 300), st.integers(1, 300), st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from([0.0, 0.3, 1.0, 40.0])
)
def test_some_choice_is_as_good_as_any_number_of_pipelines(microbatches, limit, load_s, first_bytes):
    choices = pipeline_choices(microbatches, 2.0, [0, limit])
    assert choices.offset[1] == 0, "no pipelines fit a limit of zero"

    def batch_s(data):
        return load_s * (math.ceil(microbatches / data) + 3) + 2.0 * (1 - 1 / data) * first_bytes

    best = min(map(batch_s, range(1, min(microbatches, limit) + 1)))
    offered = min(
        load_s * (rounds + 3) + sync * first_bytes
        for rounds, sync in zip(choices.rounds, choices.sync_s_per_byte, strict=True)
    )
    assert math.isclose(best, offered, rel_tol=1e-12)
    assert all(
        rounds == math.ceil(microbatches / data) for data, rounds in zip(choices.data, choices.rounds, strict=True)
    )


def test_choices_are_few():
    assert len(pipeline_choices(4096, 1.0, [1023]).data) < 12
