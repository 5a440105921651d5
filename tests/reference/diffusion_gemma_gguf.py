"""DiffusionGemma checkpoints as GGUF files, laid out as the drafts of llama.cpp read them (ggml-org/llama.cpp#24423).

The gguf package knows no such architecture yet: names of keys and tensors are those of the drafts' description.
"""
import gguf
import numpy as np
from diffusion_gemma import DECODER, ENCODER, FULL, SLIDING, read_shape
from gguf import GGMLQuantizationType as Type

TYPES = (Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q5_1)
LAYER = {  # of a layer, without ".weight" where both have it
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "post_feedforward_layernorm_1": "post_ffw_norm_1",
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2", "post_feedforward_layernorm_2": "post_ffw_norm_2",
    "post_feedforward_layernorm": "post_ffw_norm", "router.proj": "ffn_gate_inp",
}
WHOLE = {"router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale",
         "experts.gate_up_proj": "ffn_gate_up_exps.weight", "experts.down_proj": "ffn_down_exps.weight",
         "layer_scalar": "layer_output_scale.weight"}
MODEL = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight",
         "self_conditioning.pre_norm.weight": "self_cond_pre_norm.weight",
         "self_conditioning.gate_proj.weight": "self_cond_gate.weight",
         "self_conditioning.up_proj.weight": "self_cond_up.weight",
         "self_conditioning.down_proj.weight": "self_cond_down.weight"}


def gguf_name(name):
    """None for what a file leaves out: images, and the copy of the embedding."""
    if name.startswith(ENCODER + "layers."):
        layer, part = name.removeprefix(ENCODER + "layers.").split(".", 1)
        return f"blk.{layer}.enc_layer_output_scale.weight" if part == "layer_scalar" else None
    if not name.startswith(DECODER):
        return None
    name = name.removeprefix(DECODER)
    if not name.startswith("layers."):
        return MODEL[name]
    layer, part = name.removeprefix("layers.").split(".", 1)
    return f"blk.{layer}." + (WHOLE[part] if part in WHOLE else LAYER[part.removesuffix(".weight")] + ".weight")


def add_keys(writer, config, generation, rng):
    shape, text = read_shape(config), config["text_config"]
    kinds = text["layer_types"]

    def key(name, value, add):
        add(f"diffusion-gemma.{name}", value)

    key("block_count", len(kinds), writer.add_uint32)
    key("context_length", text["max_position_embeddings"], writer.add_uint32)
    key("embedding_length", text["hidden_size"], writer.add_uint32)
    key("feed_forward_length", text["intermediate_size"], writer.add_uint32)
    key("attention.head_count", text["num_attention_heads"], writer.add_uint32)
    kv_heads = [shape.kv_heads[kind] for kind in kinds]
    if len(set(kv_heads)) == 1 and rng.random() < 0.5:
        key("attention.head_count_kv", kv_heads[0], writer.add_uint32)
    else:
        key("attention.head_count_kv", kv_heads, writer.add_array)
    for name, kind in (("", FULL), ("_swa", SLIDING)):
        key(f"attention.key_length{name}", shape.head_dim[kind], writer.add_uint32)
        key(f"attention.value_length{name}", shape.head_dim[kind], writer.add_uint32)
        key(f"rope.dimension_count{name}", shape.head_dim[kind], writer.add_uint32)
        key(f"rope.freq_base{name}", text["rope_parameters"][kind]["rope_theta"], writer.add_float32)
    key("attention.sliding_window", text["sliding_window"], writer.add_uint32)
    key("attention.sliding_window_pattern", [kind == SLIDING for kind in kinds], writer.add_array)
    key("attention.layer_norm_rms_epsilon", text["rms_norm_eps"], writer.add_float32)
    key("attention.causal", False, writer.add_bool)
    if rng.random() < 0.5:
        key("attention.shared_kv_layers", 0, writer.add_uint32)
        key("embedding_length_per_layer_input", 0, writer.add_uint32)
    key("expert_count", text["num_experts"], writer.add_uint32)
    key("expert_used_count", text["top_k_experts"], writer.add_uint32)
    key("expert_feed_forward_length", text["moe_intermediate_size"], writer.add_uint32)
    key("final_logit_softcapping", text["final_logit_softcapping"], writer.add_float32)
    writer.add_uint32("diffusion.canvas_length", config["canvas_length"])
    writer.add_bool("diffusion.shift_logits", False)
    for name, value, add in (("max_steps", generation["max_denoising_steps"], writer.add_uint32),
                             ("t_min", generation["t_min"], writer.add_float32),
                             ("t_max", generation["t_max"], writer.add_float32),
                             ("stability_threshold", generation.get("stability_threshold"), writer.add_uint32),
                             ("confidence_threshold", generation.get("confidence_threshold"), writer.add_float32),
                             ("entropy_bound", generation.get("sampler_config", {}).get("entropy_bound"),
                              writer.add_float32)):
        if value is not None:
            add(f"diffusion.eb_{name}", value)
    writer.add_eos_token_id(1)


def write(path, config, generation, tensors, rng):
    """Writes a file with matrices in types of their own. Returns the numbers that it holds, under the published names."""
    writer = gguf.GGUFWriter(path, "diffusion-gemma")
    add_keys(writer, config, generation, rng)
    shape, stored = read_shape(config), {}
    is_split = rng.random() < 0.5  # gate and up apart
    for name, values in tensors.items():
        to = gguf_name(name)
        if to is None:
            continue
        is_plain = values.ndim == 1 or to.endswith("ffn_gate_inp.weight")
        fitting = [kind for kind in TYPES if values.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0]
        kind = Type.F32 if is_plain else fitting[rng.integers(len(fitting))]
        rows = gguf.quants.quantize(np.asarray(values, np.float32), kind)
        stored[name] = gguf.quants.dequantize(rows, kind).reshape(values.shape)
        if is_split and to.endswith("ffn_gate_up_exps.weight"):
            gate, up = np.split(rows, 2, axis=1)
            writer.add_tensor(to.replace("gate_up", "gate"), np.ascontiguousarray(gate), raw_dtype=kind)
            writer.add_tensor(to.replace("gate_up", "up"), np.ascontiguousarray(up), raw_dtype=kind)
        else:
            writer.add_tensor(to, rows, raw_dtype=kind)
    turning = int(config["text_config"]["rope_parameters"][FULL]["partial_rotary_factor"] * shape.head_dim[FULL] // 2)
    divisors = np.where(np.arange(shape.head_dim[FULL] // 2) < turning, 1, 1e30).astype(np.float32)
    writer.add_tensor("rope_freqs.weight", divisors)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors | stored
