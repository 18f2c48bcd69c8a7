# Helpers of the shell scenarios: start a broker and a provider emulator, send requests, and check the results. Each part is in
# a file of its own, named below. Needs bash, curl, jq, openssl and python3. These helpers know only the broker's HTTP interface.
#
#   COATCHECK, COATCHECK_SANDBOX   the two programs (default: those of .build/dist, else of .build/debug)
#   VERBOSE=1                      print every request and answer
#   KEEP=1                         keep the run's folder

set -u -o pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
builds="$root/.build/dist"
[ -x "$builds/coatcheck" ] || builds="$root/.build/debug"
export COATCHECK=${COATCHECK:-$builds/coatcheck}
export COATCHECK_SANDBOX=${COATCHECK_SANDBOX:-$builds/coatcheck-sandbox}
work=$(mktemp -d "${TMPDIR:-/tmp}/coatcheck-curl.XXXXXX")
chmod 700 "$work"
pids=()
passed=0
failed=0

for part in verdicts requests stack postgresql emulator logins examples; do
    # shellcheck disable=SC1090
    source "$here/$part.bash"
done
unset part
