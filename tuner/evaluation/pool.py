"""Many tasks on all cores."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import active_children

from tuner.children import ending_with_parent
from tuner.evaluation.controlled import controlled, nothing
from tuner.evaluation.tasks import ORACLE, Run, Task, sized
from tuner.evaluation.yardstick import yardstick


def done(task: Task) -> Run:
    """Runs one task to its end."""
    task = replace(task, scenario=sized(task.scenario, task.size))
    if task.goal is None:
        return nothing(task)
    return yardstick(task) if task.policy == ORACLE else controlled(task)


def all_done(tasks: Sequence[Task], workers: int | None = None) -> Iterator[Run]:
    """Runs as they are done, in any order, on all cores."""
    count = workers or os.cpu_count() or 1
    if count == 1 or len(tasks) == 1:
        yield from map(done, tasks)
        return
    with ProcessPoolExecutor(count, initializer=ending_with_parent) as pool:
        try:
            for future in as_completed([pool.submit(done, task) for task in tasks]):
                yield future.result()
        except BaseException:
            # Nobody waits for the rest: a worker in the middle of its run would keep us for minutes.
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in active_children():
                worker.terminate()
            raise
