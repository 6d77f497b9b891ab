# SPDX-License-Identifier: MIT
# cmake -DCOMPILER=… -DSOURCE=… -DINCLUDES=…,… -DOUTPUT=… -P forms_json.cmake: the table of forms as JSON, for the Python command.
string(REPLACE "," ";-I" includes "-I${INCLUDES}")
execute_process(COMMAND ${COMPILER} -E -P -x c -std=c11 ${includes} ${SOURCE} OUTPUT_VARIABLE rows COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "\\.([a-z_]+) = " "\"\\1\": " rows "${rows}")
string(REGEX REPLACE ",[ \n]*$" "" rows "${rows}")
file(WRITE ${OUTPUT} "[\n${rows}\n]\n")
