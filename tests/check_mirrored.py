#!/usr/bin/env python3
"""Finds sources without a test of their own: python3 tests/check_mirrored.py [ROOT]

Tests mirror sources: src/decode/unmask.h is tested by tests/decode/unmask_test.cpp, lab/eval/bound.h by
tests/lab/eval/bound_test.cpp. The program, and with it lab/commands, is tested in tests/cli. ELSEWHERE lists the sources that are
tested in another place, with that place. A source with neither is an error; so is a place that does not exist.
"""
import fnmatch
import pathlib
import sys

# Pattern of sources below src/ or lab/, without suffix, and the tests that cover them. The first match is used.
ELSEWHERE = {
    "api/*": "tests/api/session_test.cpp",
    "backend/cuda/device_model": "tests/backend/cuda/cuda_model_test.cpp",
    "backend/cuda/device*": "tests/backend/cuda/cuda_model_test.cpp",  # and runtime_test.cpp
    "backend/cuda/kv_pool": "tests/backend/cuda/cuda_model_test.cpp",
    "backend/cuda/no_device": "",  # one message, in a build with neither CUDA nor the simulator
    "backend/cuda/staging": "tests/backend/cuda/cuda_model_test.cpp",
    "backend/cuda/pass_*": "tests/backend/cuda/pass_test.cpp",
    "backend/cuda/sparse_pass": "tests/backend/cuda/cuda_model_test.cpp",
    "backend/cuda/ticket": "tests/backend/cuda/cuda_model_test.cpp",
    "backend/cuda/attention_plan": "tests/backend/cuda/kernels/attention_test.cpp",
    "backend/cuda/kernels/attention_walk": "tests/backend/cuda/kernels/cells_test.cpp",
    "backend/cuda/kernels/f32_product_block": "tests/backend/cuda/kernels/f32_product_test.cpp",
    "backend/cuda/kernels/quantized_product_block": "tests/backend/cuda/kernels/quantized_product_test.cpp",
    "backend/cuda/kernels/product_block": "tests/backend/cuda/kernels/product_test.cpp",
    "backend/cuda/kernels/reductions": "tests/backend/cuda/kernels/draw_test.cpp",
    "backend/cuda/kernels/pipeline": "tests/backend/cuda/kernels/product_test.cpp",
    "backend/cuda/kernels/product_epilogue": "tests/backend/cuda/kernels/product_test.cpp",
    "backend/cuda/runtime_*": "tests/backend/cuda/runtime_test.cpp",
    "backend/cuda/device_*": "tests/backend/cuda/device_test.cpp",
    "backend/cuda/check_cuda": "",  # errors of a device
    "backend/cuda/kernels/probe": "tests/backend/cuda/gpu_check_test.cpp",
    "backend/cuda/simt/*": "tests/backend/cuda/simulator_test.cpp",  # and planted_faults_test.cpp
    "backend/cpu/cpu_backend": "tests/backend/backend_test.cpp",  # and the tests of a device that shares no memory
    "backend/shard/launcher": "",  # reads the environment
    "backend/shard/*mpi": "",  # needs a launcher
    "backend/shard/follow": "tests/backend/shard/sharded_model_test.cpp",
    "backend/shard/host_model": "tests/backend/shard/remote_model_test.cpp",
    "backend/shard/message_socket": "tests/backend/shard/remote_model_test.cpp",
    "backend/shard/remote_messages": "tests/backend/shard/remote_model_test.cpp",
    "base/clock": "",  # wraps std::chrono
    "constraint/answer_form": "tests/constraint/constraint_test.cpp",
    "constraint/schema_compiler": "tests/constraint/json_schema_test.cpp",
    "constraint/json_schema_options": "tests/constraint/json_schema_test.cpp",  # values
    "constraint/schema_keywords": "tests/constraint/json_schema_test.cpp",
    "constraint/schema_lists": "tests/constraint/json_schema_test.cpp",
    "constraint/schema_objects": "tests/constraint/json_schema_test.cpp",
    "server/generation_request": "tests/server/api_request_test.cpp",
    "server/sampling_fields": "tests/server/api_request_test.cpp",
    "engine/answer_limit": "tests/server/answer_limit_test.cpp",
    "server/own_fields": "tests/server/api_request_test.cpp",
    "server/hint_fields": "tests/server/documented_fields_test.cpp",
    "constraint/utf8_text": "tests/constraint/regex_test.cpp",
    "base/exception_text": "tests/engine/scheduler_test.cpp",
    "base/communicator": "tests/backend/shard/shared_memory_test.cpp",
    "base/overloaded": "",  # wraps std::visit
    "base/token": "",  # one alias
    "constraint/symbol": "tests/constraint/byte_automaton_test.cpp",  # values
    "constraint/expression_node": "tests/constraint/byte_automaton_test.cpp",  # values
    "constraint/automaton_limits": "tests/constraint/byte_automaton_test.cpp",
    "constraint/subset_construction": "tests/constraint/byte_automaton_test.cpp",
    "constraint/nfa": "tests/constraint/byte_automaton_test.cpp",
    "constraint/transition_table": "tests/constraint/byte_automaton_test.cpp",
    "constraint/schema_forms": "tests/constraint/json_schema_test.cpp",
    "constraint/schema_reader": "tests/constraint/json_schema_test.cpp",
    "weights/tensor_files": "tests/weights/checkpoint_test.cpp",
    "kernels/cell_panels": "tests/kernels/attention_test.cpp",
    "kernels/isas*": "tests/kernels/dispatch_test.cpp",
    "kernels/panels": "tests/kernels/definitions.h",  # element by element
    "kernels/table*": "tests/kernels/dispatch_test.cpp",
    "kernels/*/*": "tests/kernels",  # every function of every table is compared with its definition
    "weights/published_floats": "tests/weights/published_tensors_test.cpp",
    "weights/published_integers": "tests/weights/published_tensors_test.cpp",
    "model/modulation": "tests/model/lfm2_test.cpp",
    "model/short_convolution": "tests/model/lfm2_test.cpp",
    "model/parameter_count": "tests/model/parameters_test.cpp",
    "model/rank_exchange": "tests/backend/shard/sharded_model_test.cpp",
    "model/tensor_places": "tests/model/adapters_test.cpp",
    "tokenizer/builtin_templates": "tests/tokenizer/chat_template_test.cpp",
    "tokenizer/conversation": "tests/tokenizer/chat_template_test.cpp",
    "tokenizer/template_files": "tests/tokenizer/chat_template_test.cpp",
    "weights/lora_config": "tests/weights/lora_test.cpp",
    "weights/ggml_grids": "tests/weights/ggml_blocks_test.cpp",
    "weights/stored_matrix": "tests/weights/packed_matrix_test.cpp",
    "tokenizer/tokenizer_json": "tests/tokenizer/tokenizer_test.cpp",
    "tokenizer/tokenizer_trio": "tests/tokenizer/tokenizer_test.cpp",
    "tokenizer/tokenizer_parts": "tests/tokenizer/tokenizer_test.cpp",  # values
    "tokenizer/tokenizer_files": "tests/tokenizer/tokenizer_test.cpp",
    "tokenizer/pre_tokenizer": "tests/tokenizer/tokenizer_test.cpp",
    "tokenizer/byte_characters": "tests/tokenizer/unicode_test.cpp",
    "tokenizer/added_tokens": "tests/tokenizer/limits_test.cpp",
    "tokenizer/gguf_pre_tokenizers": "tests/tokenizer/tokenizer_gguf_test.cpp",
    "tokenizer/normalizer": "tests/tokenizer/limits_test.cpp",
    "tokenizer/jinja/evaluator*": "tests/tokenizer/jinja_test.cpp",
    "tokenizer/jinja/statements": "tests/tokenizer/jinja_test.cpp",
    "tokenizer/jinja/template": "tests/tokenizer/jinja_test.cpp",
    "tokenizer/jinja/functions": "tests/tokenizer/jinja_test.cpp",
    "tokenizer/jinja/loop": "tests/tokenizer/jinja_test.cpp",
    "tokenizer/jinja/lexer": "tests/tokenizer/jinja_syntax_test.cpp",
    "tokenizer/jinja/*parser": "tests/tokenizer/jinja_syntax_test.cpp",
    "tokenizer/jinja/syntax": "tests/tokenizer/jinja_syntax_test.cpp",
    "tokenizer/jinja/runtime": "tests/tokenizer/jinja_limits_test.cpp",
    "tokenizer/jinja/*": "tests/tokenizer/jinja_values_test.cpp",  # and tests/reference/check_jinja.py
    "tokenizer/regex": "tests/tokenizer/limits_test.cpp",
    "tokenizer/json_file": "tests/tokenizer/tokenizer_test.cpp",
    "tokenizer/bpe": "tests/tokenizer/tokenizer_test.cpp",
    "server/http_messages": "tests/server/http_server_test.cpp",
    "server/reply_work": "tests/server/http_server_test.cpp",
    "server/reply_writer": "tests/server/http_server_test.cpp",
    "cache/output_cache": "tests/model/drift_test.cpp",
    "model/config_keys": "tests/model/config_test.cpp",
    "model/config_texts": "tests/model/config_test.cpp",
    "model/read_config": "tests/model/config_test.cpp",
    "model/paradigm": "tests/model/config_test.cpp",
    "model/family": "tests/model/families_test.cpp",  # values
    "model/llama": "tests/model/config_test.cpp",  # and the golden files
    "model/pass": "tests/model/model_test.cpp",  # and the golden files
    "model/layers": "tests/model/model_test.cpp",
    "tasks/sample": "tests/lab/tasks/tasks_test.cpp",
    "model/ranks": "tests/backend/shard/sharded_model_test.cpp",
    "model/layer_attention": "tests/model/model_test.cpp",
    "model/kept_attention": "tests/engine/block_diffusion_test.cpp",
    "model/head": "tests/model/model_test.cpp",
    "model/pass_result": "tests/engine/pass_loop_test.cpp",  # a value
    "model/pass_times": "tests/engine/scheduler_test.cpp",  # a value
    "model/gemma3": "tests/model/gguf_model_test.cpp",
    "model/gguf_keys": "tests/engine/gguf_test.cpp",
    "model/families/*": "tests/model/families_test.cpp",  # and the golden files
    "model/family_parts": "tests/model/families_test.cpp",
    "model/a2d": "tests/model/borrowed_class_test.cpp",  # and tests/reference
    "model/coda": "tests/model/families_test.cpp",
    "model/qwen_moe": "tests/model/families_test.cpp",
    "model/diffusion_gemma": "tests/model/config_test.cpp",  # and the golden files
    "model/dream": "tests/model/families_test.cpp",
    "model/gidd": "tests/model/families_test.cpp",
    "model/llada*": "tests/model/families_test.cpp",
    "model/qwen": "tests/model/families_test.cpp",
    "model/sdlm": "tests/model/config_test.cpp",
    "engine/load_options": "tests/api/session_test.cpp",
    "engine/logits": "tests/api/session_test.cpp",  # and tests/reference/check_engine.py
    "engine/weight_options": "tests/cli/cli_test.cpp",
    "options/assign": "tests/api/session_test.cpp",
    "decode/baseline*": "tests/engine/baseline_test.cpp",
    "decode/alternatives": "tests/engine/alternatives_test.cpp",
    "decode/constrained": "tests/engine/constrained_test.cpp",
    "decode/decoder_wrapper": "tests/engine/constrained_test.cpp",
    "decode/decoder": "tests/decode/fake_model.h",  # an interface
    "decode/noise_schedule": "tests/decode/uniform_diffusion_test.cpp",
    "decode/make_*": "tests/decode/make_decoder_test.cpp",
    "decode/refusion_plan": "tests/decode/refusion_test.cpp",
    "decode/sequence_decoder": "tests/decode/block_diffusion_test.cpp",
    "decode/left_to_right": "tests/decode/autoregressive_test.cpp",
    "decode/stop_text": "tests/engine/stop_test.cpp",
    "options/options": "tests/cli/help_test.cpp",
    "hub/no_curl": "",  # one message, in a build without libcurl
    "hub/digest": "tests/hub/hub_files_test.cpp",
    "hub/blob_download": "tests/hub/pull_test.cpp",
    "hub/http": "tests/hub/pull_test.cpp",
    "hub/hub_api": "tests/hub/pull_test.cpp",
    "hub/pull_options": "tests/hub/pull_test.cpp",  # values
    "server/completion": "tests/server/service_test.cpp",
    "server/dialect": "tests/server/endpoints_test.cpp",  # values
    "server/ollama_endpoints": "tests/server/ollama_test.cpp",
    "server/endpoint_list": "tests/server/endpoints_test.cpp",
    "server/generation": "tests/server/service_test.cpp",
    "server/infill_request": "tests/server/api_request_test.cpp",
    "server/model_server": "tests/server/server_test.cpp",
    "server/openai_format": "tests/server/service_test.cpp",
    "server/reply_format": "tests/server/service_test.cpp",
    "server/service_settings": "tests/server/service_test.cpp",  # values
    "server/settings": "tests/server/api_request_test.cpp",
    "server/page/*": "tests/server/page_test.cpp",
    "eval/evaluate": "tests/cli/cli_test.cpp",
    "instruments/follow": "tests/lab/instruments/instruments_test.cpp",
    "instruments/instruments_json": "tests/lab/instruments/instruments_test.cpp",
    "instruments/lock_json": "tests/lab/instruments/lock_test.cpp",
    "tasks/number_question": "tests/lab/tasks/questions_test.cpp",
    "tasks/question_*": "tests/lab/tasks/questions_test.cpp",
    "tasks/talk": "tests/lab/tasks/word_problems_test.cpp",  # the chats
    "instruments/recall_json": "tests/lab/instruments/recall_test.cpp",
    "tasks/vocabulary": "tests/lab/tasks/word_problems_test.cpp",
}


def place_of(source):
    """The tests that cover a source without a mirrored test; None if ELSEWHERE does not list it."""
    return next((place for pattern, place in ELSEWHERE.items() if fnmatch.fnmatchcase(source, pattern)), None)


def main(arguments):
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parents[1]
    sources = sorted({path.relative_to(root).with_suffix("").as_posix()
                      for folder in ("src", "lab") for path in (root / folder).rglob("*")
                      if path.suffix in (".h", ".cpp") and not path.is_relative_to(root / "lab/commands")})
    problems = []
    for source in sources:
        test = f"tests/{source.removeprefix('src/')}_test.cpp"
        if (root / test).exists():
            continue
        place = place_of(source.partition("/")[2])
        if place is None:
            problems.append(f"{source} has no {test}, and tests/check_mirrored.py lists no other test")
        elif not (root / place).exists():
            problems.append(f"{source} is tested in {place}, which does not exist")
    for problem in problems:
        print(problem)
    print(f"{len(sources)} sources")
    return 1 if problems or not sources else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
