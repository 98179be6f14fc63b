#pragma once

#include <hdf5.h>

#include <string>

#include "analysis/trace/layer_attention.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// The attributes of `/`, `/model` and `/run`.
struct TraceAttributes {
  int version = 1;
  std::string generator, created;
  ModelInfo model;
  RunInfo run;
};

/// The attributes of a layer, without its sink logits; of a file of version 1 only those that it
/// knows. Throws hdf5::Failure for one that is out of range. Call under hdf5::Lock.
LayerAttributes read_layer_attributes(hid_t file, int layer, int version);
/// Writes those that differ from the default. Throws Failure; call under Lock.
void write_layer_attributes(hid_t group, const LayerAttributes& layer);

/// Reads and checks them. Throws hdf5::Failure: not a kvloupe trace, a newer format_version, not
/// complete, an attribute missing, of the wrong kind or out of range. Call under hdf5::Lock.
TraceAttributes read_trace_attributes(hid_t file);

/// The model as each layer has it: `/model` with the layer's own shape, window and rotation. Throws
/// hdf5::Failure where layers disagree: a `shares_with` that names no earlier layer with a cache,
/// heads that do not divide, widths beyond their bounds.
std::vector<ModelInfo> layer_models(const ModelInfo& model,
                                    const std::vector<LayerAttributes>& layers);

/// Whether only version 2 describes this layer.
bool needs_version_2(const LayerAttributes& layer);

/// Writes the attributes of a new file's /model; a `fingerprint` only where it is not empty. Throws
/// Failure; call under Lock.
void write_model_attributes(hid_t group, const ModelInfo& model, const std::string& fingerprint);

/// Writes those of /run, once the run is over. Throws Failure; call under Lock.
void write_run_attributes(hid_t group, const RunInfo& run);

}  // namespace kvloupe
