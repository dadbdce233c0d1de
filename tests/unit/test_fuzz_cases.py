"""The fuzzer's inputs: the same for the same seed, different from their samples, and of bounded size."""

from tests.fuzz.cases import Sample, make_case
from tests.fuzz.mutations import MAX_BYTES, MUTATIONS

SAMPLES = (
    Sample("a.log", b"12:00:01 Step 1 | Time: 2.5s | Reward: 0.4\n12:00:04 Step 2 | Time: 2.6s | Reward: 0.5\n" * 20),
    Sample("b.jsonl", b'{"step": 1, "time/step": 12.5}\n{"step": 2, "time/step": 13.5}\n' * 20),
    Sample("empty.csv", b""),
)


def test_a_case_is_wholly_determined_by_seed_and_index() -> None:
    frameworks = ("verl", "slime")
    once = [make_case(7, index, SAMPLES, frameworks) for index in range(200)]
    again = [make_case(7, index, SAMPLES, frameworks) for index in reversed(range(200))]
    assert once == again[::-1]
    assert once != [make_case(8, index, SAMPLES, frameworks) for index in range(200)]


def test_most_cases_differ_from_every_sample() -> None:
    cases = [make_case(1, index, SAMPLES[:2], ()) for index in range(200)]
    originals = {sample.data for sample in SAMPLES}
    assert sum(case.files[0].data not in originals for case in cases) > 150


def test_every_mutation_is_reached_and_copes_with_nothing_at_all() -> None:
    cases = [make_case(1, index, SAMPLES, ()) for index in range(2_000)]
    reached = {word for case in cases for word in case.trail}
    assert {mutation.__name__ for mutation in MUTATIONS} <= reached


def test_an_input_stays_small_enough_to_run_a_hundred_thousand_of_them() -> None:
    cases = [make_case(2, index, SAMPLES, ()) for index in range(1_000)]
    assert max(len(file.data) for case in cases for file in case.files) <= 5 * MAX_BYTES


def test_some_cases_force_a_framework_and_some_bring_several_files() -> None:
    cases = [make_case(3, index, SAMPLES, ("verl", "slime")) for index in range(300)]
    assert {case.framework for case in cases} == {None, "verl", "slime"}
    assert {len(case.files) for case in cases} == {1, 2, 3}
