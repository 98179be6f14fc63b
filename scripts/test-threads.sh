#!/usr/bin/env bash
# Builds the tests of replays, jobs and the window with the thread sanitizer and runs them:
#   scripts/test-threads.sh
# The build takes 20 minutes of processor time from nothing. docs/reliability.md states the last result.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
scripts/setup.sh
# Addresses that are drawn from all too many collide with the sanitizer's own.
still=()
setarch -R true 2>/dev/null && still=(setarch -R)
"${still[@]}" scripts/build.sh tsan test_analysis_fast test_figure_fast test_app_fast test_app_gui
suites=ParallelLoop,ParallelLoopDeathTest,ReplayTest,LayerStatesCacheTest,LargeLayer,MeasureReplay,ExprReplay,SweepTest
suites+=,StudyTest,ItemQueue,ReplayServiceTest,FigureServiceTest,JobQueue,InputQueueTest,CaptureJob,Window,WindowTest
suites+=,WindowCompression,ClosedLoopSheet,LessonPanel,Follow,RealEvents,Keyboard,SmallScreen,StartPage,Cause
suites+=,Presentation,Scripts,OpenedFiles
export TSAN_OPTIONS=suppressions=$PWD/tests/thread_suppressions.txt,history_size=7
for name in test_analysis_fast test_figure_fast test_app_fast test_app_gui; do
  "${still[@]}" "build-tsan/bin/$name" --gtest_brief=1 --gtest_filter="${suites//,/.*:}.*"
done
