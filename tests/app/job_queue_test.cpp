#include "app/job/job_queue.h"

#include <future>

#include "app/job/computed.h"
#include "tests/support/test.h"

namespace kvloupe::job {
namespace {

using namespace std::chrono_literals;

template <class Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

TEST(JobQueue, RunsJobsAtALowerPriorityAndWakesItsOwner) {
  std::atomic<int> wakes = 0;
  std::atomic<int> nice_value = 0;
  JobQueue queue(2, [&] { ++wakes; });
  queue.submit(
      [&](Progress&) { nice_value = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); });
  ASSERT_TRUE(eventually([&] { return queue.idle() && wakes > 0; }));
  const int own = getpriority(PRIO_PROCESS, 0);
  EXPECT_TRUE(nice_value > own || own == 19) << nice_value << " beside " << own;
}

TEST(JobQueue, SurvivesWhatAJobThrows) {
  JobQueue queue(1);
  queue.submit([](Progress&) { throw std::runtime_error("boom"); });
  std::atomic<bool> ran = false;
  queue.submit([&](Progress&) { ran = true; });
  EXPECT_TRUE(eventually([&] { return ran.load(); }));
}

TEST(JobQueue, CancelledJobsThatWaitNeverStart) {
  JobQueue queue(1);
  std::promise<void> gate;
  auto open = gate.get_future().share();
  queue.submit([open](Progress&) { open.wait(); });
  std::atomic<bool> ran = false;
  queue.submit([&](Progress&) { ran = true; })->cancel();
  gate.set_value();
  ASSERT_TRUE(eventually([&] { return queue.idle(); }));
  EXPECT_FALSE(ran);
}

TEST(JobQueue, ClosingCancelsWhatRuns) {
  std::atomic<bool> started = false;
  std::atomic<bool> cancelled = false;
  {
    JobQueue queue(1);
    queue.submit([&](Progress& progress) {
      started = true;
      try {
        while (true) {
          progress.advance();
          std::this_thread::sleep_for(1ms);
        }
      } catch (const Cancelled&) {
        cancelled = true;
      }
    });
    ASSERT_TRUE(eventually([&] { return started.load(); }));
  }
  EXPECT_TRUE(cancelled);
}

struct ComputedSlot : testing::Test {
  JobQueue queue{1};
  Computed<int> slot;
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
};

TEST_F(ComputedSlot, ShowsPartialThenFinalValues) {
  slot.request(queue, "a", [open = open](Progress&, const Computed<int>::Publish& publish) {
    publish(1);
    open.wait();
    return 2;
  });
  ASSERT_TRUE(eventually([&] { return slot.current() != nullptr; }));
  EXPECT_EQ(*slot.current(), 1);
  EXPECT_TRUE(slot.computing());
  gate.set_value();
  ASSERT_TRUE(eventually([&] { return !slot.computing(); }));
  EXPECT_EQ(*slot.current(), 2);
}

TEST_F(ComputedSlot, ANewerKeyCancelsTheOlderAndStaleResultsAreNeverShown) {
  JobQueue queue(2);
  slot.request(queue, "first", [](Progress&, const auto&) { return 1; });
  ASSERT_TRUE(eventually([&] { return slot.current() != nullptr; }));

  std::atomic<bool> late_started = false;
  std::atomic<bool> late_done = false;
  slot.request(queue, "late",
               [open = open, &late_started, &late_done](Progress&, const auto& publish) {
                 late_started = true;
                 open.wait();
                 publish(2);  // ignores its cancellation
                 late_done = true;
                 return 2;
               });
  ASSERT_TRUE(eventually([&] { return late_started.load(); }));
  EXPECT_EQ(slot.current(), nullptr);
  EXPECT_EQ(*slot.value(), 1) << "the old picture stays until the new one is there";
  slot.request(queue, "newest", [](Progress&, const auto&) { return 3; });
  gate.set_value();
  ASSERT_TRUE(eventually([&] { return late_done && queue.idle(); }));
  EXPECT_EQ(*slot.current(), 3);
  EXPECT_EQ(slot.held().key, "newest");
}

TEST_F(ComputedSlot, WhileKeysKeepChangingTheJobUnderWayIsSeenButNeverAsCurrent) {
  constexpr auto kRest = 10000ms;
  const auto work = [this](int value) {
    return [open = open, value](Progress&, const auto&) {
      open.wait();
      return value;
    };
  };
  slot.request(queue, "1", work(1), kRest);
  slot.request(queue, "2", work(2), kRest);  // the hand moves on
  slot.request(queue, "3", work(3), kRest);
  EXPECT_TRUE(slot.computing());
  gate.set_value();
  ASSERT_TRUE(eventually([&] { return slot.value() != nullptr; }));
  EXPECT_EQ(*slot.value(), 1);
  EXPECT_EQ(slot.held().key, "1");
  EXPECT_EQ(slot.current(), nullptr);
  EXPECT_TRUE(slot.computing()) << "the newest is still to come";
  ASSERT_TRUE(eventually([&] {
    slot.request(queue, "3", work(3), kRest);
    return slot.current() != nullptr;
  }));
  EXPECT_EQ(*slot.current(), 3);
}

TEST_F(ComputedSlot, AKeyThatStaysReplacesTheJobUnderWay) {
  std::atomic<bool> cancelled = false;
  slot.request(queue, "endless", [&](Progress& progress, const auto&) -> int {
    try {
      while (true) {
        progress.advance();
        std::this_thread::sleep_for(1ms);
      }
    } catch (const Cancelled&) {
      cancelled = true;
      throw;
    }
  });
  ASSERT_TRUE(eventually([&] {
    slot.request(
        queue, "next", [](Progress&, const auto&) { return 2; }, 20ms);
    return slot.current() != nullptr;
  }));
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(*slot.current(), 2);
}

TEST_F(ComputedSlot, WantingAnotherKeyMakesTheOldValueStale) {
  slot.request(queue, "old", [](Progress&, const auto&) { return 1; });
  ASSERT_TRUE(eventually([&] { return slot.current() != nullptr; }));
  slot.want("new");
  EXPECT_EQ(slot.current(), nullptr);
  EXPECT_EQ(*slot.value(), 1);
  EXPECT_TRUE(slot.computing());
}

TEST(Computed, AKeyThatComesBackAfterItsJobWasCancelledIsComputed) {
  for (const bool started : {false, true}) {
    JobQueue queue(1);
    Computed<int> slot;
    std::promise<void> gate;
    auto open = gate.get_future().share();
    std::atomic<bool> runs = false;
    if (!started) queue.submit([open](Progress&) { open.wait(); });  // the job has to wait
    const auto work = [&](Progress& progress, const Computed<int>::Publish& publish) {
      publish(1);
      runs = true;
      open.wait();
      progress.check();
      return 2;
    };
    slot.request(queue, "a", work);
    if (started) {
      ASSERT_TRUE(eventually([&] { return runs.load(); }));
    }
    slot.want("b");
    slot.want("a");
    EXPECT_TRUE(slot.computing());
    gate.set_value();
    ASSERT_TRUE(eventually([&] {
      slot.request(queue, "a", work, 5ms);
      return slot.whole();
    })) << started;
    EXPECT_EQ(*slot.current(), 2);
    EXPECT_FALSE(slot.computing());
  }
}

TEST_F(ComputedSlot, APartialResultIsCurrentButNotComplete) {
  EXPECT_FALSE(slot.whole());
  slot.request(queue, "a", [open = open](Progress&, const Computed<int>::Publish& publish) {
    publish(1);
    open.wait();
    return 2;
  });
  ASSERT_TRUE(eventually([&] { return slot.current() != nullptr; }));
  EXPECT_FALSE(slot.whole());
  gate.set_value();
  ASSERT_TRUE(eventually([&] { return slot.whole(); }));
  slot.want("b");
  EXPECT_FALSE(slot.whole()) << "what is there belongs to another key";
}

TEST_F(ComputedSlot, AStoppedJobKeepsItsPartAndGoesOnOnlyWhenToldTo) {
  std::atomic<int> runs = 0;
  const auto work = [&](Progress& progress, const Computed<int>::Publish& publish) {
    publish(1);
    while (++runs > 0 && runs < 1'000'000) {
      progress.check();
      std::this_thread::sleep_for(1ms);
    }
    return 2;
  };
  slot.request(queue, "a", work);
  ASSERT_TRUE(eventually([&] { return slot.current() != nullptr; }));
  slot.stop();
  EXPECT_TRUE(slot.stopped());
  EXPECT_FALSE(slot.computing());
  ASSERT_TRUE(eventually([&] { return queue.idle(); }));
  slot.request(queue, "a", work);
  EXPECT_TRUE(queue.idle()) << "not begun again";
  EXPECT_EQ(*slot.current(), 1);
  EXPECT_FALSE(slot.whole());
  slot.go_on();
  EXPECT_TRUE(slot.computing());
  EXPECT_EQ(*slot.value(), 1) << "what was there stays in sight";
  runs = 999'990;
  slot.request(queue, "a", work);
  ASSERT_TRUE(eventually([&] { return slot.whole(); }));
  EXPECT_EQ(*slot.whole(), 2);
  slot.stop();
  EXPECT_FALSE(slot.stopped()) << "it had come to its end";
}

TEST_F(ComputedSlot, AskingAgainForTheSameKeyDoesNotComputeAgain) {
  std::atomic<int> runs = 0;
  for (int i = 0; i < 5; ++i) {
    slot.request(queue, "same", [&](Progress&, const auto&) { return ++runs; });
    ASSERT_TRUE(eventually([&] { return queue.idle(); }));
  }
  EXPECT_EQ(runs, 1);
}

TEST_F(ComputedSlot, AFailureBecomesOneLineAndKeepsTheQueueAlive) {
  slot.request(queue, "bad", [](Progress&, const auto&) -> int {
    throw WorkError("layer 2, head 0, token 17: not a number");
  });
  ASSERT_TRUE(eventually([&] { return !slot.computing(); }));
  EXPECT_THAT(slot.error(), HasSubstr("token 17"));
  EXPECT_EQ(slot.current(), nullptr);
  slot.request(queue, "good", [](Progress&, const auto&) { return 7; });
  ASSERT_TRUE(eventually([&] { return slot.current() != nullptr; }));
  EXPECT_TRUE(slot.error().empty());
}

TEST(JobProgress, SaysHowFarAndHowLong) {
  JobProgress progress;
  EXPECT_EQ(how_far(progress), "waiting for another job");
  progress.begin();
  progress.set_total(100);
  EXPECT_EQ(how_far(progress), "0 %");
  progress.advance(50);
  EXPECT_EQ(how_far(progress), "50 %") << "after an instant, the time is a guess";
  ASSERT_TRUE(eventually([&] { return progress.seconds() > 1.05; }));
  const auto left = progress.seconds_left();
  ASSERT_TRUE(left);
  EXPECT_NEAR(*left, progress.seconds(), 0.2) << "half is done";
  EXPECT_THAT(how_far(progress), StartsWith("50 %, about "));
}

TEST(JobProgress, CountsWhatAPersonCanCount) {
  JobProgress progress;
  progress.begin();
  progress.set_total(3000);
  Progress first(progress, 1000);
  first.set_total(40);
  first.count("layers", 4, 10);
  EXPECT_EQ(how_far(progress), "0 of 4 layers");
  first.advance(27);
  EXPECT_EQ(how_far(progress), "2 of 4 layers");
  first.advance(13);
  EXPECT_EQ(how_far(progress), "33 %") << "what comes now is not counted";
  progress.count("replays", 3, 1000);
  EXPECT_EQ(how_far(progress), "1 of 3 replays");
  Progress second(progress, 1000);
  second.set_total(4);
  second.count("layers", 4);
  second.advance(3);
  EXPECT_EQ(how_far(progress), "1 of 3 replays") << "the outermost count is told";
  second.finish();
  EXPECT_EQ(how_far(progress), "2 of 3 replays");
  Progress one;
  one.set_total(2);
  one.count("layers", 1, 2);
  EXPECT_EQ(one.counted()->of, 1);
}

}  // namespace
}  // namespace kvloupe::job
