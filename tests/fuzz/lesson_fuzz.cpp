// A lesson, with its expressions and views.

#include "app/lesson/lesson.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(lesson) { kvloupe::lesson::parse_lesson("01-lesson.md", input).errors(); }
