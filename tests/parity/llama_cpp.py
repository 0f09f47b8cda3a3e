"""What the comparisons need of llama.cpp, out of the source distribution of llama-cpp-python: its chat templates and its
converter. They are other people's work and stay in the cache.

    llama_cpp.py SOURCE RULE ARGUMENTS...    run the converter; any tokenizer is taken to cut text by the rule of this name"""
import os, subprocess, sys, tarfile

VERSION = "0.3.36"
WANTED = ("models/templates/", "gguf-py/gguf/", "conversion/", "convert_hf_to_gguf.py")


def source(cache):
    """The folder with the parts of llama.cpp's source, fetched if it is not there."""
    folder = os.path.join(os.path.abspath(cache), f"llama.cpp-{VERSION}")
    if not os.path.isdir(folder):
        os.makedirs(cache, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", cache, f"llama-cpp-python=={VERSION}"], check=True)
        archive = os.path.join(cache, f"llama_cpp_python-{VERSION}.tar.gz")
        with tarfile.open(archive) as tar:
            for member in tar:
                name = member.name.partition("/vendor/llama.cpp/")[2]
                if member.isfile() and name.startswith(WANTED):
                    member.name = name
                    tar.extract(member, folder + ".tmp", filter="data")
        os.rename(folder + ".tmp", folder)
        os.remove(archive)
    return folder


def convert(cache, model, out, rule):
    """llama.cpp's own GGUF file of a model folder, in float32."""
    p = subprocess.run([sys.executable, __file__, source(cache), rule, model, "--outfile", out, "--outtype", "f32"], capture_output=True)
    if p.returncode:
        raise RuntimeError(f"llama.cpp's converter: {p.stderr.decode()[-400:]}")


if __name__ == "__main__":
    folder, rule = sys.argv[1:3]
    sys.argv[1:3] = []
    sys.path[:0] = [folder, os.path.join(folder, "gguf-py")]
    import convert_hf_to_gguf
    from conversion.base import TextModel
    TextModel.get_vocab_base_pre = lambda self, tokenizer: rule
    TextModel._set_vocab_sentencepiece = TextModel._set_vocab_gpt2  # the small models have byte-level tokenizers
    convert_hf_to_gguf.main()
