#pragma once

#include <hdf5.h>

#include <string>

#include "analysis/trace/layer_attention.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// The attributes of `/`, `/model` and `/run`.
struct TraceAttributes {
  std::string generator, created;
  ModelInfo model;
  RunInfo run;
};

/// The attributes of a layer, without its sink logits. Throws hdf5::Failure for one that is out of
/// range. Call under hdf5::Lock.
LayerAttributes read_layer_attributes(hid_t file, int layer);
/// Writes those that differ from the default. Throws Failure; call under Lock.
void write_layer_attributes(hid_t group, const LayerAttributes& layer);

/// Reads and checks them. Throws hdf5::Failure: not a kvloupe trace, a newer format_version, not
/// complete, an attribute missing, of the wrong kind or out of range. Call under hdf5::Lock.
TraceAttributes read_trace_attributes(hid_t file);

/// Writes the attributes of a new file's /model; a `fingerprint` only where it is not empty. Throws
/// Failure; call under Lock.
void write_model_attributes(hid_t group, const ModelInfo& model, const std::string& fingerprint);

/// Writes those of /run, once the run is over. Throws Failure; call under Lock.
void write_run_attributes(hid_t group, const RunInfo& run);

}  // namespace kvloupe
