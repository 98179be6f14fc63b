#pragma once

#include <hdf5.h>

#include <string>

#include "analysis/trace/model_info.h"

namespace kvloupe {

/// The attributes of `/`, `/model` and `/run`.
struct TraceAttributes {
  std::string generator, created;
  ModelInfo model;
  RunInfo run;
};

/// Reads and checks them. Throws hdf5::Failure: not a kvloupe trace, a newer format_version, not
/// complete, an attribute missing, of the wrong kind or out of range. Call under hdf5::Lock.
TraceAttributes read_trace_attributes(hid_t file);

/// Writes the attributes of a new file's /model; a `fingerprint` only where it is not empty. Throws
/// Failure; call under Lock.
void write_model_attributes(hid_t group, const ModelInfo& model, const std::string& fingerprint);

/// Writes those of /run, once the run is over. Throws Failure; call under Lock.
void write_run_attributes(hid_t group, const RunInfo& run);

}  // namespace kvloupe
