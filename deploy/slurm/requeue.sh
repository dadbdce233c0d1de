#!/bin/bash
# The restart command of [[actuator]] kind = "config_restart" under Slurm:
#   restart  = ["deploy/slurm/requeue.sh", "JOB_ID"]
#   resolved = "RUN/resolved.yaml"     Slurm answers at once: only what the job writes at its start tells that it is up
# The job is asked for a checkpoint first (SIGUSR1, if it knows it), then put back into the queue with its settings.
set -euo pipefail

job=${1:?usage: requeue.sh JOB_ID [SECONDS_FOR_THE_CHECKPOINT]}
patience=${2:-300}

restarts() { scontrol show job --oneliner "$job" | grep -o 'Restarts=[0-9]*' | cut -d= -f2; }

before=$(restarts)
scancel --signal=USR1 "$job" || true
sleep "$patience"
scontrol requeue "$job"

# Until it runs again: a job that stays in the queue is not restarted, and one that was not taken down yet neither.
while :; do
    state=$(squeue --noheader --format=%T --jobs="$job")
    case $state in
        RUNNING)
            if [ "$(restarts)" -gt "$before" ]; then
                exit 0
            fi
            sleep 10
            ;;
        PENDING | CONFIGURING | REQUEUED | COMPLETING | REQUEUE_HOLD) sleep 10 ;;
        *)
            echo "job $job is ${state:-gone}" >&2
            exit 1
            ;;
    esac
done
