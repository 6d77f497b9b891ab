# Combinations that are not supported are errors of the compiler, not surprises at run time.
#   cmake -DCC="<compiler and flags>" -DCXX=… -DINCLUDE=<folder> -DSCRATCH=<folder> -P does_not_compile.cmake
separate_arguments(cc UNIX_COMMAND "${CC}")
separate_arguments(cxx UNIX_COMMAND "${CXX}")
file(MAKE_DIRECTORY ${SCRATCH})

# wanted: 0 compiles, 1 does not, with the message that may follow. The lines that compile show that the others fail for their own reason.
set(header percpu)
function(check wanted code)
  file(WRITE ${SCRATCH}/try.c "#include <linewright/${header}.h>\nvoid f(void *p);\nvoid f(void *p)\n{\n    ${code};\n}\n")
  configure_file(${SCRATCH}/try.c ${SCRATCH}/try.cpp COPYONLY)
  foreach(how IN ITEMS "${cc};-std=c11;${SCRATCH}/try.c" "${cxx};-std=c++17;${SCRATCH}/try.cpp")
    execute_process(COMMAND ${how} -I${INCLUDE} -fsyntax-only RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE errors)
    if(wanted EQUAL 0 AND NOT result EQUAL 0)
      message(SEND_ERROR "should compile and does not: ${code}\n${errors}")
    elseif(wanted EQUAL 1 AND result EQUAL 0)
      message(SEND_ERROR "compiles and should not: ${code}")
    elseif(ARGC EQUAL 3 AND NOT errors MATCHES "${ARGV2}")
      message(SEND_ERROR "fails without the message '${ARGV2}': ${code}\n${errors}")
    endif()
  endforeach()
endfunction()

# Programs that forbid themselves casts of C's may include every header.
foreach(header IN ITEMS atomic cache percpu policy srcu wide)
  file(WRITE ${SCRATCH}/casts.cpp "#include <linewright/${header}.h>\n")
  if(header STREQUAL "percpu")
    file(APPEND ${SCRATCH}/casts.cpp "LW_DEFINE_STATIC_PERCPU(unsigned, defined);\nunsigned f();\nunsigned f()\n{\n"
      "    unsigned *copy;\n    lw_percpu_for_each(copy, defined) *copy = 1;\n    lw_this_cpu_inc(defined);\n"
      "    return lw_this_cpu_xchg(defined, 2u);\n}\n")
  endif()
  execute_process(COMMAND ${cxx} -std=c++17 -Wall -Wextra -Wpedantic -Wold-style-cast -Werror -I${INCLUDE} -fsyntax-only
    ${SCRATCH}/casts.cpp RESULT_VARIABLE result ERROR_VARIABLE errors)
  if(NOT result EQUAL 0)
    message(SEND_ERROR "${header}.h warns in C++:\n${errors}")
  endif()
endforeach()

# The other dialect of assembly is refused with a reason. Compilers for other architectures do not know the option.
file(WRITE ${SCRATCH}/intel.c "#include <linewright/percpu.h>\n")
execute_process(COMMAND ${cc} -masm=intel -I${INCLUDE} -c ${SCRATCH}/intel.c -o ${SCRATCH}/intel.o ERROR_VARIABLE errors)
if(NOT errors MATCHES "AT&T syntax; compile this file without -masm=intel|unrecognized|unknown argument")
  message(SEND_ERROR "-masm=intel is not refused with a reason:\n${errors}")
endif()

check(0 "lw_this_cpu_add((uint64_t *)p, 1)")
check(0 "lw_this_cpu_xchg((uint8_t *)p, 1)")
check(0 "lw_this_cpu_xchg((void **)p, p)")
check(1 "lw_this_cpu_add((uint8_t *)p, 1)")
check(1 "lw_this_cpu_add((uint16_t *)p, 1)")
check(1 "lw_this_cpu_inc((int *)p)")
check(1 "lw_this_cpu_inc((float *)p)")
check(1 "lw_this_cpu_inc((void **)p)")
check(1 "lw_this_cpu_inc(p)")
check(1 "(void)lw_percpu_sum((uint16_t *)p)")
check(1 "lw_this_cpu_write((double *)p, 1)")
check(1 "lw_this_cpu_or((void **)p, p)")
check(1 "(void)lw_this_cpu_fetch_add((void **)p, 1)")
check(1 "(void)lw_this_cpu_xchg((_Bool *)p, 1)")
check(1 "(void)lw_this_cpu_xchg((__int128 *)p, 1)")
check(1 "lw_this_cpu_write((const uint32_t *)p, 1)")

# SRCU: each flavour's readers take domains of their own flavour only; updaters take every flavour's.
set(header srcu)
set(code "struct lw_srcu_head *head = (struct lw_srcu_head *)p")
foreach(type IN ITEMS "" _normal _fast _fast_updown)
  foreach(updater IN ITEMS "cleanup(D)" "synchronize(D)" "synchronize_expedited(D)" "synchronize_timeout(D, 1)" "barrier(D)"
      "cond_synchronize(D, 2)" "get_state(D)" "poll(D, 2)" "start_poll(D)" "describe(D, 0, 0)" "on_stall(D, 1, 0, 0)"
      "forget_readers(D)" "cleanup_idle(D)" "read_lock_held(D)" "call(D, head, 0)")
    string(REPLACE "(D" "((struct lw_srcu${type} *)p" updater "${updater}")
    string(APPEND code "; if (lw_srcu_${updater}) return")
  endforeach()
endforeach()
check(0 "${code}")
check(1 "if (lw_srcu_synchronize((int *)p)) return")
check(1 "if (lw_srcu_init((struct lw_srcu *)p)) return") # the common part has no flavour

function(check_readers type lock unlock)
  set(domain "(struct lw_srcu_${type} *)p")
  check(0 "if (lw_srcu_init(${domain})) return; lw_srcu_${unlock}(${domain}, lw_srcu_${lock}(${domain}))")
  foreach(other IN ITEMS normal fast fast_updown)
    if(NOT other STREQUAL type)
      set(message "(onver|eneric).*lw_srcu_${other} ?[*]|lw_srcu_${other} ?[*].*compatible")
      set(domain "(struct lw_srcu_${other} *)p")
      check(1 "(void)lw_srcu_${lock}(${domain}).pair" "${message}")
      check(1 "lw_srcu_index i = {0, 0}; lw_srcu_${unlock}(${domain}, i)" "${message}")
    endif()
  endforeach()
endfunction()
check_readers(normal read_lock read_unlock)
check_readers(fast read_lock_fast read_unlock_fast)
check_readers(fast_updown down_read_fast up_read_fast)
check(1 "(void)lw_srcu_read_lock_fast((struct lw_srcu *)p).pair")
