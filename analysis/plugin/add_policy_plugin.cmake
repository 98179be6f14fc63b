# kvloupe_add_policy_plugin(NAME source ...): the shared library NAME.so, which kvloupe loads with
# --plugin NAME.so. It shows one symbol, and has no prefix "lib": nobody links to it.
function(kvloupe_add_policy_plugin name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE kvloupe::policy)
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so"
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
