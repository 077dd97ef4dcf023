# Reads csrc/isas.txt (its format stands there) and sets
#   isas               names of the rows of the target's architecture, in the order of the table
#   isa_<name>_flags   what they are compiled with
#   vector_isas        those that the vector kernels are compiled for
# and writes isa_table.h into ${generated}: all rows, of other architectures too, as lists that take a macro.
set(table ${CMAKE_CURRENT_SOURCE_DIR}/csrc/isas.txt)
set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(architecture x86_64)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(architecture aarch64)
else()
  set(architecture "") # the baseline alone
endif()

# isa_feature(<name> of <architecture> probe <where>...): one row of EB_FEATURES.
function(isa_feature name)
  cmake_parse_arguments(row "" "of" "probe" ${ARGN})
  if(NOT row_of OR NOT row_probe OR row_UNPARSED_ARGUMENTS OR DEFINED isa_feature_${name})
    message(FATAL_ERROR "${table}: expected 'feature NAME of ARCHITECTURE probe WHERE...', got '${name} ${ARGN}'")
  endif()
  list(POP_FRONT row_probe kind)
  list(JOIN row_probe ", " where)
  string(TOUPPER "EB_${kind}(${where})" probe)
  set(isa_feature_${name} ${row_of} PARENT_SCOPE)
  set(feature_rows "${feature_rows} \\\n    ROW(${name}, ${probe})" PARENT_SCOPE)
endfunction()

# isa_row(<name> [extends <row>] [requires <feature>...] [flags <flag>...]): one row of EB_ISAS.
function(isa_row name)
  cmake_parse_arguments(row "" "extends" "requires;flags" ${ARGN})
  if(row_UNPARSED_ARGUMENTS OR name IN_LIST declared OR (row_extends AND NOT row_extends IN_LIST declared))
    message(FATAL_ERROR "${table}: expected 'isa NAME [extends ROW] [requires FEATURE...] [flags FLAG...]' with an earlier "
                        "row, got '${name} ${ARGN}'")
  endif()
  set(requires ${isa_${row_extends}_requires} ${row_requires})
  set(is_built TRUE)
  set(bits 0)
  foreach(feature IN LISTS requires)
    if(NOT DEFINED isa_feature_${feature})
      message(FATAL_ERROR "${table}: ${name} requires ${feature}, which is no feature of the table")
    endif()
    if(NOT isa_feature_${feature} STREQUAL architecture)
      set(is_built FALSE)
    endif()
    string(APPEND bits " | EB_REQUIRES(${feature})")
  endforeach()
  set(declared ${declared} ${name} PARENT_SCOPE)
  set(isa_${name}_requires ${requires} PARENT_SCOPE)
  set(isa_${name}_flags ${isa_${row_extends}_flags} ${row_flags} PARENT_SCOPE)
  set(isa_rows "${isa_rows} \\\n    ROW(${name}, ${bits})" PARENT_SCOPE)
  if(NOT is_built)
    return()
  endif()
  set(isas ${isas} ${name} PARENT_SCOPE)
  string(TOUPPER "EB_BUILD_${name}" guard)
  set(guards "${guards}#define ${guard} 1\n" PARENT_SCOPE)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/csrc/kernels/${name}/isa.h)
    set(vector_isas ${vector_isas} ${name} PARENT_SCOPE)
    set(vector_rows " \\\n    ROW(${name})${vector_rows}" PARENT_SCOPE) # best first
  endif()
endfunction()

set(isas)
set(vector_isas)
set(declared)
file(STRINGS ${table} lines REGEX "^[^#]")
foreach(line IN LISTS lines)
  separate_arguments(words UNIX_COMMAND "${line}")
  list(POP_FRONT words kind name)
  if(kind STREQUAL "feature")
    isa_feature(${name} ${words})
  elseif(kind STREQUAL "isa")
    isa_row(${name} ${words})
  else()
    message(FATAL_ERROR "${table}: expected a line of 'feature' or 'isa', got '${line}'")
  endif()
endforeach()

file(CONFIGURE OUTPUT ${generated}/isa_table.h @ONLY CONTENT [[
/* Made from csrc/isas.txt by csrc/cmake/isas.cmake. */

/* ROW(feature, probe) */
#define EB_FEATURES(ROW)@feature_rows@

/* ROW(name, bits of what it requires), least capable first */
#define EB_ISAS(ROW)@isa_rows@

/* ROW(name) of those that the vector kernels are compiled for, best first */
#define EB_VECTOR_ISAS(ROW)@vector_rows@

/* Guards of what only some architectures have: the rows of this one. */
@guards@]])
