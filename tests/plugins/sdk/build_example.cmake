# Installs the SDK into a scratch prefix, builds the example there with nothing but that, and runs the plugin check on it.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${what} failed (${code}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run("installing the SDK" ${CMAKE_COMMAND} --install ${GEARBOX_BUILD} --component sdk --prefix ${WORK}/prefix)
# A copy: the example must not find anything by lying in the source tree.
file(COPY ${GEARBOX_SOURCE}/docs/examples/balancer DESTINATION ${WORK})
run("configuring the example" ${CMAKE_COMMAND} -G Ninja -S ${WORK}/balancer -B ${WORK}/build -D CMAKE_PREFIX_PATH=${WORK}/prefix
  -D CMAKE_CXX_COMPILER=${CXX})
run("building the example" ${CMAKE_COMMAND} --build ${WORK}/build)
run("checking the example" ${GEARBOX_CHECKER} plugins check --child ${WORK}/build/my_balancer.so)
if(NOT output MATCHES "\"ok\":true" OR NOT output MATCHES "\"name\":\"fill_first\"" OR NOT output MATCHES "\"key\":\"fill\"")
  message(FATAL_ERROR "the check says: ${output}")
endif()
file(REMOVE_RECURSE ${WORK})
