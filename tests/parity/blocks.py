"""Hold the numbers that spar makes of GGUF's blocks against those of the gguf package, bit by bit: random blocks of each type.

    blocks.py BUILD

One line a type; exits non-zero if one number differs."""
import os, subprocess, sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

TYPES = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K".split()
BLOCKS = 4096


def compare(name):
    type_ = GGMLQuantizationType[name]
    elements, size = GGML_QUANT_SIZES[type_]
    raw = np.random.default_rng(1).integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    theirs = (raw.view("<f4") if name == "F32" else quants.dequantize(raw, type_)).astype("<f4").reshape(-1)
    ours = subprocess.run([os.path.join(sys.argv[1], "parity", "blocks"), str(int(type_)), str(theirs.size)], input=raw.tobytes(), check=True, capture_output=True).stdout
    ours = np.frombuffer(ours, dtype="<f4")
    same = (ours.view("<u4") == theirs.view("<u4")) | (np.isnan(ours) & np.isnan(theirs))  # scales that are not finite: as such
    print(f"{'ok' if same.all() else 'NOT OK'}  {name}: {same.sum()} of {theirs.size} numbers are equal", flush=True)
    return same.all()


np.seterr(all="ignore")
sys.exit(not all([compare(name) for name in TYPES]))
