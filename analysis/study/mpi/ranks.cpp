#include "analysis/study/mpi/ranks.h"

#include <fmt/format.h>

#include <algorithm>

#ifdef KVLOUPE_MPI
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#endif

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/text.h"

namespace kvloupe {

int launched_processes(const Variable& variable) {
  const auto number = [&](const char* name) {
    const char* value = variable(name);
    return value == nullptr ? 0 : std::atoi(value);
  };
  const int processes = std::max({1, number("OMPI_COMM_WORLD_SIZE"), number("PMI_SIZE")});
  // The tasks of the step that srun started. A batch script runs outside any step, however many
  // tasks its job has.
  const int tasks = number("SLURM_STEP_NUM_TASKS");
  if (processes > 1 || tasks <= 1) return processes;
  if (variable("PMIX_RANK") != nullptr) return tasks;
  // mpirun starts one daemon per node with srun; what runs below that has mpirun's variables.
  const bool joined =
      variable("PMI_RANK") != nullptr || variable("OMPI_COMM_WORLD_RANK") != nullptr;
  if (joined || variable("SLURM_PROCID") == nullptr) return processes;
  throw UsageError(
      fmt::format("study: srun started {} processes that do not know of each other; start them "
                  "with srun --mpi=pmix, or with mpirun",
                  tasks));
}

void run_study_as_started(const StudyFile& study, const std::filesystem::path& results,
                          const std::string& shard, const StudyRun::Report& report, StudyPart part,
                          const MakeWorker& make_worker) {
  refuse_own_input(results, {study.path});
  const auto run = launched_processes() > 1 ? run_study_on_ranks : run_study;
  run(study, results, report, part, make_worker, shard.empty() ? Shard{} : parse_shard(shard));
}

#ifndef KVLOUPE_MPI

void run_study_on_ranks(const StudyFile&, const std::filesystem::path&, const StudyRun::Report&,
                        StudyPart, const MakeWorker&, const Shard&) {
  throw UsageError(
      "study: several processes were started, but this kvloupe was built without MPI; start one, "
      "which uses all cores");
}

#else

namespace {
constexpr int kAsk = 1;      // worker → 0: its last outcome, or nothing
constexpr int kAnswer = 2;   // 0 → worker: a task, or nothing: the end
constexpr int kContent = 3;  // the bytes of either

/// MPI from here to the end of the object's life.
class Ranks {
 public:
  Ranks() {
    int level = 0;
    // Threads of a replay make no MPI calls.
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~Ranks() { MPI_Finalize(); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Cores for the replays of this process. A launcher that binds processes to cores has shared
  /// these out; else the workers of this machine share all.
  static int threads() {
    MPI_Comm machine = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    int here = 1, first = 0, rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(machine, &here);
    MPI_Allreduce(&rank, &first, 1, MPI_INT, MPI_MIN, machine);
    MPI_Comm_free(&machine);
    const int workers = std::max(here - (first == 0 ? 1 : 0), 1);  // rank 0 computes nothing
    cpu_set_t own;
    CPU_ZERO(&own);
    const int all = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    const int mine = sched_getaffinity(0, sizeof own, &own) == 0 ? CPU_COUNT(&own) : all;
    return mine < all ? mine : std::max(all / workers, 1);
  }

 private:
  int rank_ = 0, size_ = 1;
};

/// A message of any length: how long it is, then pieces that an int can count.
constexpr std::size_t kPiece = std::size_t{1} << 28U;

void send(const std::string& bytes, int to, int tag) {
  const auto size = static_cast<unsigned long long>(bytes.size());
  MPI_Send(&size, 1, MPI_UNSIGNED_LONG_LONG, to, tag, MPI_COMM_WORLD);
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    const auto count = static_cast<int>(std::min(kPiece, bytes.size() - at));
    MPI_Send(bytes.data() + at, count, MPI_BYTE, to, kContent, MPI_COMM_WORLD);
  }
}

std::string receive(int from, int tag) {
  unsigned long long size = 0;
  MPI_Recv(&size, 1, MPI_UNSIGNED_LONG_LONG, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  std::string bytes(size, '\0');
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    const auto count = static_cast<int>(std::min(kPiece, bytes.size() - at));
    MPI_Recv(bytes.data() + at, count, MPI_BYTE, from, kContent, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return bytes;
}

/// The rank that asks next. MPI's own waiting keeps a core busy, which a worker may need.
int wait_for_any() {
  for (;;) {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kAsk, MPI_COMM_WORLD, &there, &status);
    if (there != 0) return status.MPI_SOURCE;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

/// Answers every question until each of the workers has heard of the end. After a failure of its
/// own it hands out nothing more, and throws that failure when all workers have stopped.
void hand_out(int workers, const StudyFile& study, const std::filesystem::path& results,
              const StudyRun::Report& report, StudyPart part, const Shard& shard) {
  std::exception_ptr failure;
  std::unique_ptr<StudyRun> run;
  const auto guarded = [&](const auto& work) {
    if (failure) return;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  };
  guarded([&] { run = std::make_unique<StudyRun>(study, results, report, part, shard); });
  while (workers > 0) {
    const int worker = wait_for_any();
    const std::string outcome = receive(worker, kAsk);
    std::optional<StudyTask> task;
    guarded([&] { task = run->next(worker); });
    // The worker computes while its last outcome is written.
    send(task ? to_bytes(*task) : "", worker, kAnswer);
    if (!task) --workers;
    guarded([&] {
      if (!outcome.empty()) run->record(outcome_of(outcome));
    });
  }
  if (failure) std::rethrow_exception(failure);
  run->finish();
}

/// Computes until rank 0 has no more. Without a worker, whose making has failed, that failure is
/// the outcome of every item: rank 0 waits until each process has asked for the last time.
void compute(const MakeWorker& make_worker, int threads) {
  std::unique_ptr<ItemWorker> worker;
  StudyOutcome failed;
  try {
    worker = make_worker(threads);
  } catch (const std::exception& error) {
    failed.problem = in_one_line(error.what(), 400);
  } catch (...) {
    failed.problem = "a failure without a message; this is a defect of kvloupe";
  }
  for (std::string outcome;;) {
    send(outcome, 0, kAsk);
    const std::string bytes = receive(0, kAnswer);
    if (bytes.empty()) return;
    const StudyTask task = task_of(bytes);
    failed.item = task.item;
    outcome = to_bytes(worker ? worker->compute(task) : failed);
  }
}
}  // namespace

void run_study_on_ranks(const StudyFile& study, const std::filesystem::path& results,
                        const StudyRun::Report& report, StudyPart part,
                        const MakeWorker& make_worker, const Shard& shard) {
  const Ranks ranks;
  const int threads = Ranks::threads();
  if (ranks.rank() == 0) {
    if (ranks.size() == 1) return run_study(study, results, report, part, make_worker, shard);
    hand_out(ranks.size() - 1, study, results, report, part, shard);
  } else {
    compute(make_worker, threads);
  }
}

#endif

}  // namespace kvloupe
