"""Read event files that `spar report --tensorboard` wrote with the tensorboard package, and hold them against the records.

    tensorboard_read.py BUILD

Exits non-zero if a tag, a step or a value differs, or if going over the run again adds anything."""
import json, math, os, subprocess, sys, tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

build = os.path.abspath(sys.argv[1])


def report(board, run):
    return subprocess.run([f"{build}/bin/spar", "report", f"--tensorboard={board}", run], check=True, capture_output=True, text=True).stderr


with tempfile.TemporaryDirectory() as work:
    run, board = f"{work}/run", f"{work}/board"
    os.makedirs(f"{run}/answerer")
    metrics = [{"type": "metric", "step": i + 1, "loss": math.sin(i), "kl": 1e-30 * i, "num_tokens": 10**9 + i, "step_time": 0.5, "lr": None if i % 3 else 1e-5}
               for i in range(300)]
    for n in (100, 300):  # the run grows
        with open(f"{run}/answerer/metrics.jsonl", "w") as f:
            f.writelines(json.dumps(m) + "\n" for m in metrics[:n])
        print(report(board, run).strip())
    again = report(board, run)
    assert again == "report: 0 new figures\n", again
    events = EventAccumulator(f"{board}/run/answerer", size_guidance={"scalars": 0}).Reload()
    tags = {k for m in metrics for k, v in m.items() if isinstance(v, (int, float)) and k != "step"}
    assert set(events.Tags()["scalars"]) == tags, events.Tags()
    for tag in tags:
        want = [(m["step"], m[tag]) for m in metrics if m[tag] is not None]
        got = [(e.step, e.value) for e in events.Scalars(tag)]
        assert [s for s, _ in got] == [s for s, _ in want], tag
        assert all(abs(a - b) <= 1e-7 * abs(b) for (_, a), (_, b) in zip(got, want)), tag
    written = os.stat(f"{run}/answerer/metrics.jsonl").st_mtime
    walls = [e.wall_time for e in events.Scalars("loss")]
    assert abs(walls[-1] - written) < 1e-3 and abs(walls[-1] - walls[-2] - 0.5) < 1e-3, walls[-2:]
    print(f"tensorboard reads {len(tags)} tags, {len(events.Scalars('loss'))} steps: equal")
