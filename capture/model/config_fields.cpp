// Fields of a config.json that change no computation, or none while they have one value. Every
// other field that a family does not read is refused: it may be a part of the model that kvloupe
// does not know.
#include <string_view>

#include "analysis/base/text/text.h"
#include "capture/model/config_reader.h"

namespace kvloupe {

namespace {

/// Names and versions, training, the classes of transformers, and its settings for generation.
/// Where use_sliding_window is true, max_window_layers is read; beside _sliding_window_pattern
/// stands layer_types; beside gpt-oss's experts_per_token and initial_context_length stand the
/// usual names.
constexpr std::string_view kHarmless =
    " _attn_implementation _attn_implementation_autoset _commit_hash _experts_implementation "
    " _flash_attn_2_enabled _model_name_or_path _name_or_path _sliding_window_pattern "
    " attention_dropout "
    " attn_implementation auto_map bad_words_ids begin_suppress_tokens cache_implementation "
    " chunk_size_feed_forward cls_token_id cross_attention_hidden_size custom_pipelines "
    " decoder_start_token_id diversity_penalty do_sample dtype early_stopping embd_pdrop "
    " encoder_no_repeat_ngram_size experts_per_token exponential_decay_length_penalty "
    " finetuning_task forced_bos_token_id forced_eos_token_id gradient_checkpointing "
    " hidden_dropout id2label initial_context_length initializer_range is_decoder "
    " is_llama_config label2id length_penalty mask_token_id max_length max_new_tokens "
    " max_sequence_length max_window_layers min_length model_max_length model_type "
    " name_or_path neftune_noise_alpha no_repeat_ngram_size num_beam_groups num_beams "
    " num_labels num_return_sequences output_attentions output_hidden_states "
    " output_router_logits output_scores pad_token_id prefix pretraining_tp problem_type "
    " remove_invalid_values repetition_penalty resid_pdrop return_dict return_dict_in_generate "
    " router_aux_loss_coef router_jitter_noise sep_token_id suppress_tokens "
    " task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class "
    " top_k top_p torch_dtype torchscript transformers.js_config transformers_version "
    " typical_p unk_token_id unsloth_fixed unsloth_version use_bfloat16 use_cache ";

/// Fields that change no computation while they are 1 or true.
constexpr std::string_view kHarmlessAt1 =
    " attention_multiplier embedding_multiplier full_attn_mod interpolate_factor is_causal "
    " logits_scaling residual_multiplier ";

/// null, [] and {} ask for nothing, nor does false, which publishers write for what their models do
/// not have (use_mrope): but a causal model is the rule.
bool asks_for_nothing(const std::string& name, const nlohmann::json& value) {
  return value.is_null() || (value.is_structured() && value.empty()) ||
         (value == false && name.find("causal") == name.npos);
}

}  // namespace

void ConfigReader::refuse_others() const {
  for (const auto& [name, value] : root_.items()) {
    if (read_.contains(name) || asks_for_nothing(name, value)) continue;
    const std::string word = " " + name + " ";
    if (kHarmless.find(word) != kHarmless.npos) continue;
    const bool at1 = kHarmlessAt1.find(word) != kHarmlessAt1.npos;
    if (at1 && (value == true || value == 1)) continue;
    const std::string shown = in_one_line(name, 40) + " " + in_one_line(value.dump(), 40);
    fail(at1 ? shown + " is not supported by this version: it changes what the model computes"
             : shown +
                   " may change what the model computes, and this version does not know it; if "
                   "the model's authors say that it does not, remove it from a copy of "
                   "config.json");
  }
}

}  // namespace kvloupe
