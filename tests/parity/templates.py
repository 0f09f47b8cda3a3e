"""Hold rendered chats against Jinja2 as transformers sets it up, on real templates and varied conversations.

    templates.py BUILD CACHE [FILE.jinja ...]

Without files: the templates of llama.cpp's collection (inside the source distribution of llama-cpp-python) and of the npm
packages that ids.py fetches, all fetched into CACHE; they are other people's texts and stay there. A template may refuse a
conversation (raise_exception, an undefined value): then both sides must. Exits non-zero if one rendering differs."""
import glob, json, os, subprocess, sys, tempfile

from transformers.utils import chat_template_utils as reference

import llama_cpp


def fetch(cache):
    folder = os.path.join(llama_cpp.source(cache), "models", "templates")
    for path in glob.glob(os.path.join(cache, "*", "package", "models", "tokenizer_config.json")):
        template = json.load(open(path)).get("chat_template")
        if isinstance(template, str):
            with open(os.path.join(folder, path.split(os.sep)[-4] + ".npm.jinja"), "w") as f:
                f.write(template)
    return sorted(glob.glob(os.path.join(folder, "*.jinja")))


def m(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments, number="call00001"):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a place \"now\" & <here>", "parameters": {"type": "object", "properties": {
    "location": {"type": "string", "description": "The town, e.g. Köln"}, "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
    "days": {"type": "array", "items": {"type": "integer"}, "description": "which"}, "deep": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}, "required": ["x"]}}, "required": ["location"]}}},
    {"type": "function", "function": {"name": "stop", "description": "", "parameters": {"type": "object", "properties": {}}}}]

CHATS = [
    ([m("user", "hi")], {}),
    ([m("user", "  hi \n"), m("assistant", "yo\n"), m("user", "sure? ñ 🙂 <&> 'q' \"d\"")], {}),
    ([m("system", "Be nice."), m("user", "hi")], {}),
    ([m("system", ""), m("user", "hi"), m("assistant", "")], {}),
    ([m("system", "  S  "), m("user", "1"), m("assistant", "2"), m("user", "3"), m("assistant", "4"), m("user", "5")], {"add_generation_prompt": False}),
    ([m("user", "a"), m("assistant", "<think>\nhmm\n</think>\n\nwell"), m("user", "b"), m("assistant", "<think>x</think>y")], {"add_generation_prompt": False}),
    ([m("user", "a"), m("assistant", "fine", reasoning_content="because\nof it"), m("user", "b")], {}),
    ([m("user", "a"), m("assistant", "fine", reasoning="why"), m("user", "b"), m("assistant", "so", thinking="hm")], {"add_generation_prompt": False}),
    ([m("user", "a")], {"enable_thinking": False}),
    ([m("system", "S"), m("user", "a")], {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}),
    ([m("user", "Weather?")], {"tools": TOOLS}),
    ([m("system", "S"), m("user", "Weather?"), m("assistant", None, tool_calls=[call("get_weather", {"location": "Köln", "days": [1, 2], "deep": {"x": None, "y": True}})]),
      m("tool", "{\"t\": 12}", name="get_weather", tool_call_id="call00001"), m("assistant", "12 degrees"), m("user", "thanks")], {"tools": TOOLS}),
    ([m("user", "W?"), m("assistant", "", tool_calls=[call("get_weather", {"location": "A"}), call("stop", {}, "call00002")]),
      m("tool", "x", name="get_weather", tool_call_id="call00001"), m("tool", "y", name="stop", tool_call_id="call00002")], {"tools": TOOLS}),
    ([m("user", "W?"), m("assistant", "let me see", reasoning_content="needs a call", tool_calls=[call("get_weather", {"location": "B", "unit": "F"})]),
      m("tool", "cold", name="get_weather", tool_call_id="call00001")], {"tools": TOOLS, "add_generation_prompt": False}),
    ([m("user", "W?"), m("assistant", None, tool_calls=[call("get_weather", json.dumps({"location": "C"}))]), m("tool", "c", tool_call_id="call00001")], {"tools": TOOLS}),
    ([m("user", [{"type": "text", "text": "part one"}, {"type": "text", "text": " two"}])], {}),
    ([m("user", "with"), m("assistant", "docs")], {"documents": [{"title": "T", "text": "x"}], "add_generation_prompt": False}),
    ([m("developer", "D"), m("user", "a")], {}),
    ([m("user", "one"), m("user", "two")], {}),
    ([m("assistant", "first"), m("user", "then")], {}),
]


def expected(template, chat, extra):
    try:
        out, _ = reference.render_jinja_template([chat], chat_template=template, bos_token="<bos>", eos_token="<eos>", **{"add_generation_prompt": True, **extra})
        return out[0], None
    except Exception as e:
        return None, f"{type(e).__name__}: {e}"


def main():
    build, cache = sys.argv[1:3]
    spar = os.path.join(build, "bin", "spar")
    paths = sys.argv[3:] or fetch(cache)
    bad = same = refused = 0
    folder = tempfile.TemporaryDirectory()
    tokens = folder.name
    with open(os.path.join(tokens, "tokenizer_config.json"), "w") as f:
        json.dump({"bos_token": "<bos>", "eos_token": "<eos>"}, f)
    for path in paths:
        template = open(path).read()
        wrong = []
        for i, (chat, extra) in enumerate(CHATS):
            want, why = expected(template, json.loads(json.dumps(chat)), json.loads(json.dumps(extra)))
            record = {"messages": chat, **{k: v for k, v in extra.items() if k != "add_generation_prompt"}}
            args = [spar, "text", "render", "--model", tokens, "--template", path, "--json", "--variables=del(.messages)"]
            if extra.get("add_generation_prompt") is False:
                args.append("--no-add-generation-prompt")
            p = subprocess.run(args, input=json.dumps(record).encode() + b"\n", capture_output=True)
            got = json.loads(p.stdout) if p.returncode == 0 else None
            if got != want or p.returncode not in (0, 3):
                wrong.append((i, want, why, got, p.stderr.decode()))
            elif want is None:
                refused += 1
            else:
                same += 1
        bad += len(wrong)
        print(f"{'NOT OK' if wrong else 'ok'}  {os.path.basename(path)}: {len(CHATS) - len(wrong)} of {len(CHATS)} equal", flush=True)
        for i, want, why, got, error in wrong[:int(os.environ.get("SHOW", "1"))]:
            print(f"    chat {i}\n      jinja2 {want!r} {why or ''}\n      spar   {got!r} {error}")
    print(f"{len(paths)} templates: {same} renderings equal, {refused} refused by both, {bad} different")
    sys.exit(bad > 0)


main()
