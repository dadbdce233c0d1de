"""Studies: a job's settings or a policy's parameters searched over scenarios, before a run or overnight.

    equipoise tune --knobs split,concurrency --from run.jsonl

is, from Python (docs/tuning.md tells more):

    from tuner.studies.finding import Search, find
    outcome = find(Search(cohorts, space), Where("sqlite:///studies.db", "overnight"))
"""
