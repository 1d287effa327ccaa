
# The project's addition to SQLite's tester.tcl. It writes the outcome of each test case to the file that TP_CASES
# names, as Tcl lists: "pass NAME", "fail NAME TEXT", and "end" when the script has reached its end.
if {[info exists ::env(TP_CASES)] && [info commands tp_do_test] eq ""} {
  set ::tp_cases [open $::env(TP_CASES) a]
  fconfigure $::tp_cases -buffering line -translation lf
  # An environment behaves as a file in WAL mode does. So the scripts expect the results of this mode.
  if {![info exists ::G(perm:name)]} { set ::G(perm:name) wal }
  rename do_test tp_do_test
  proc do_test {name cmd expected} {
    fix_testname name
    set before [set_test_counter errors]
    set ::tp_text ""
    uplevel 1 [list tp_do_test $name $cmd $expected]
    if {[set_test_counter errors] == $before} {
      puts_original $::tp_cases "pass\t[tp_line $name]"
    } else {
      puts_original $::tp_cases "fail\t[tp_line $name]\t[tp_line $::tp_text]"
    }
  }
  # An environment is a directory, which only a forced deletion removes with its files.
  proc delete_file {args} { do_delete_file true {*}$args }
  # The test program's command calls a function of the database's file, and an environment has no such file.
  rename atomic_batch_write ""
  proc atomic_batch_write {file} { return 0 }
  proc tp_line {text} {
    return [string range [string map {\n " " \r " " \t " "} $text] 0 600]
  }
  rename output2 tp_output2
  proc output2 {args} {
    append ::tp_text [lindex $args end] " "
    uplevel 1 [list tp_output2 {*}$args]
  }
  rename finalize_testing tp_finalize_testing
  proc finalize_testing {} {
    puts_original $::tp_cases end
    tp_finalize_testing
  }
}
