"""An emulated fleet: a simulated job (simulators/pipeline.py) that shows itself as real jobs do, over HTTP on loopback.

Nothing here is measured on hardware. Engines serve vLLM-shaped /metrics, the trainer gauges under neutral or prime-rl's
names, all of a SimulatedPlant that runs in accelerated time: a job that is `acceleration` times as fast, whose seconds
are seconds of the wall clock. `python -m tests.fleet --help` runs it by itself.
"""
