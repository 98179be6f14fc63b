#include "analysis/policy/presets.h"

namespace kvloupe {

const std::vector<Preset>& presets() {
  static const std::string snap = "snapkv(window=64,kernel=5,range=candidates,pool_before_group=1)";
  static const std::string decoding = "the press has its own budget, 2048 entries";
  static const std::vector<Preset> all = {
      {"AdaKVPress(ExpectedAttentionPress)", "expected+adakv",
       "kvpress asks for epsilon=0.01 with this pair; here the press has its defaults",
       "0.5.5, with epsilon=0.01"},
      {"AdaKVPress(SnapKVPress)", snap + "+adakv", ""},
      {"BlockPress(KeyDiffPress)", "keydiff",
       "the press's blocks are --block 128, and the budget a multiple of them"},
      {"CapPress", "capkv", ""},
      {"CentralityPress", "centrality", "not a part of kvpress: lapidoty/kvpress-centrality", ""},
      {"ChunkKVPress(SnapKVPress)", snap + "+chunks(20)",
       "the press rounds the number of chunks, so it may keep up to a chunk less or more", ""},
      {"CompactorPress", "compactor(scaled=0,padded=1)",
       "the press projects keys at random before it takes leverage scores", "0.5.5, blending=0"},
      {"CriticalKVPress(SnapKVPress)", snap + "+critical(of=budget)", ""},
      {"CURPress", "cur", ""},
      {"DecodingPress(KeyDiffPress)", "keydiff+every(512)+only", decoding},
      {"DecodingPress(KnormPress)", "keynorm+every(512)+only", decoding},
      {"DecodingPress(LagKVPress)", "lagkv+every(512)+only", decoding},
      {"DecodingPress(StreamingLLMPress)", "sink(4)+every(512)+only", decoding},
      {"DecodingPress(TOVAPress)", "tova(aggregate=layer,protect_last=1)+every(512)+only",
       decoding},
      {"DMSPress", "keynorm+dms(0)+recent(128)",
       "the press takes any score and any threshold: replace keynorm and 0", ""},
      {"DuoAttentionPress", "duo",
       "the press takes its table from the authors, or the means over 50 long texts",
       "0.5.5, means over the context"},
      {"EntropyGatedChunkKVPress(SnapKVPress)", snap + "+chunks(10,few=4)",
       "the window that snapkv protects stays beside the chunks", "0.5.5, over KeyDiffPress"},
      {"ExpectedAttentionPress", "expected", ""},
      {"KeyDiffPress", "keydiff", ""},
      {"KnormPress", "keynorm", ""},
      {"KVComposePress", "kvcompose+global(by=layer)",
       "needs a trace with kvloupe-capture run --probe reread; each head here keeps at least one "
       "entry"},
      {"KVzipPress", "kvzip+global",
       "needs a trace with --probe repeat. Equals the press if the model has no chat template; "
       "each head here keeps at least one entry"},
      {"LagKVPress", "lagkv", ""},
      {"LeverageScorePress", "leverage",
       "the press projects keys at random before it takes leverage scores", ""},
      {"MergingPress(KnormPress)", "keynorm+tome", ""},
      {"NonCausalAttnPress", "noncausal(scaled=0,padded=1)", ""},
      {"ObservedAttentionPress", "h2o(normalise=visible)", ""},
      {"PyramidKVPress", snap + "+pyramid(window=64)", ""},
      {"SimLayerKVPress", "simlayer",
       "the press's own threshold, 1, keeps everything; here 0.9, its advice for Llama 3", ""},
      {"SnapKVPress", snap, ""},
      {"StreamingLLMPress", "sink(4)", ""},
      {"TOVAPress", "tova(aggregate=layer,protect_last=1)", ""},
  };
  return all;
}

}  // namespace kvloupe
