/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Torture of SRCU readers without barriers: as type srcud, but for the readers and the domain.
 * Included by rcutorture.c.
 */
static int srcu_fast_torture_read_lock(void)
{
	struct srcu_ctr __percpu *scp = srcu_read_lock_fast_updown(srcu_ctlp);

	/* rcutorture hands a small number from lock to unlock: which of the counters it is. */
	return (unsigned long __percpu *)scp -
	       (unsigned long __percpu *)srcu_ctlp->sda->srcu_lock_count;
}

static void srcu_fast_torture_read_unlock(int idx)
{
	unsigned long __percpu *locks =
		(unsigned long __percpu *)srcu_ctlp->sda->srcu_lock_count + idx;

	srcu_read_unlock_fast_updown(srcu_ctlp, (struct srcu_ctr __percpu *)locks);
}

static void srcu_fast_torture_init(void)
{
	rcu_sync_torture_init();
	WARN_ON(init_srcu_struct_fast_updown(&srcu_ctld));
	srcu_ctlp = &srcu_ctld;
}

static struct rcu_torture_ops srcu_fast_ops;

static void srcu_fast_torture_fill(void)
{
	srcu_fast_ops = srcud_ops;
	srcu_fast_ops.init = srcu_fast_torture_init;
	srcu_fast_ops.readlock = srcu_fast_torture_read_lock;
	srcu_fast_ops.readunlock = srcu_fast_torture_read_unlock;
	srcu_fast_ops.name = "srcu_fast_updown";
}
