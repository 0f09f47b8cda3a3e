"""Fill families.jsonl with the logits that transformers gives:  families.py BUILD  (see tests/unit/graph_families.c)"""
import json, os, subprocess, sys, tempfile

import torch
from transformers import AutoModelForCausalLM

path = os.path.join(os.path.dirname(__file__), "families.jsonl")
rows = [json.loads(line) for line in open(path)]
with tempfile.TemporaryDirectory() as work:
    subprocess.run([os.path.join(sys.argv[1], "unit", "graph_families"), "--write", work], check=True)
    for row in rows:
        model = AutoModelForCausalLM.from_pretrained(os.path.join(work, row["family"]), dtype=torch.float32, attn_implementation="eager")
        with torch.no_grad():
            row["logits"] = [round(x, 6) for x in model(torch.tensor([row["ids"]])).logits[0, -1].tolist()]
with open(path, "w") as out:
    out.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
