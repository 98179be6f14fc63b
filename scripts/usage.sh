# Sourced by the other scripts, in the root of the repository: --help prints the comment at the script's head, and an option
# that this comment does not name ends the script before it takes the option for the name of a folder.
usage_script=scripts/$(basename "$0")
[ -e "$usage_script" ] || usage_script=scripts/claims/$(basename "$0")
usage_head=$(sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$usage_script")
for usage_argument in "$@"; do
  case $usage_argument in
    -h | --help)
      printf '%s\n' "$usage_head"
      exit 0
      ;;
    -*)
      [[ $usage_head = *OPTION* || $usage_head = *"$usage_argument"* ]] || {
        echo "$(basename "$0"): unknown option $usage_argument; see $usage_script --help" >&2
        exit 2
      }
      ;;
  esac
done
