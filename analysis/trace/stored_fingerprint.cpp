#include <optional>

#include "analysis/error.h"
#include "analysis/trace/hdf5.h"
#include "analysis/trace/model_fingerprint.h"
#include "analysis/trace/open_trace_file.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe {

std::string stored_model_fingerprint(const std::filesystem::path& trace) {
  try {
    const hdf5::Lock lock;
    const hdf5::TraceFile opened = hdf5::open_trace_file(trace);
    const hdf5::Handle model = hdf5::open_group(opened.file, "/model");
    const std::string text = hdf5::read_text(model, layout::kFingerprint).value_or("");
    return is_model_fingerprint(text) ? text : std::string();
  } catch (const hdf5::Failure& failure) {
    throw FileError(trace.string(),
                    std::string(failure.what()) + "; capture or convert the trace again");
  }
}

}  // namespace kvloupe
