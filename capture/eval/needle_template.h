#pragma once
#include "analysis/study/needle_template.h"
