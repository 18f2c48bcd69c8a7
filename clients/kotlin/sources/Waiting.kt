// Work that threads wait for: together, or one after the other.
package coatcheck

import java.io.InterruptedIOException
import java.util.concurrent.CountDownLatch

/** One response for all callers that wait at the same time. */
internal class SharedAnswer<Value : Any> {
    @Volatile private var answers = 0
    private var last: Value? = null

    fun shared(work: () -> Value): Value {
        val before = answers
        synchronized(this) {
            last?.let { if (answers != before) return it }
            return work().also { last = it; answers += 1 }
        }
    }
}

/** Work that several threads wait for. It is cancelled if all of them stop waiting. */
internal class SharedCall<Value>(private val calls: Calls, work: () -> Value) {
    private val end = CountDownLatch(1)
    private var waiting = 0
    private var abandoned = false
    private var result: (() -> Value)? = null
    private val thread = Thread {
        result = try { val value = work(); { value } } catch (failed: Throwable) { { throw failed } }
        end.countDown()
    }.apply { isDaemon = true }

    fun begin() = thread.start()

    /** Whether another caller may still join. */
    val isOpen: Boolean get() = synchronized(this) { !abandoned && end.count > 0 }

    /** Joins the work. Call [value] afterwards. Returns false if the work is over. */
    fun join(): Boolean = synchronized(this) { isOpen.also { if (it) waiting += 1 } }

    fun value(): Value {
        try {
            pausing { end.await() }
        } finally {
            synchronized(this) {
                waiting -= 1
                if (waiting == 0 && end.count > 0) abandoned = true
            }
            if (abandoned) calls.cancel(thread)
        }
        return result!!()
    }
}

/** A queue that does one piece of work at a time, in the order of the requests. */
internal class Turn {
    private class One {
        val over = CountDownLatch(1)
        @Volatile var no: Exception? = null
    }

    private val waiting = ArrayList<One>()
    private var isTaken = false

    fun <Value> taken(work: () -> Value): Value {
        val one = One()
        val begins = synchronized(this) { (!isTaken).also { if (it) isTaken = true else waiting += one } }
        if (!begins) {
            try {
                pausing { one.over.await() }
            } catch (cancelled: InterruptedIOException) {
                // The caller may have received its turn in the meantime.
                if (!synchronized(this) { waiting.remove(one) } && one.no == null) pass()
                throw cancelled
            }
            one.no?.let { throw it }
        }
        try { return work() } finally { pass() }
    }

    /** Fails all waiting callers. */
    fun refuse(no: Exception) = synchronized(this) {
        waiting.forEach { it.no = no; it.over.countDown() }
        waiting.clear()
    }

    private fun pass() = synchronized(this) {
        if (waiting.isEmpty()) isTaken = false else waiting.removeAt(0).over.countDown()
    }
}

/** Waits. If the thread is interrupted, throws the same exception as an interrupted call. */
internal fun <Value> pausing(work: () -> Value): Value = try {
    work()
} catch (cancelled: InterruptedException) {
    Thread.currentThread().interrupt()
    throw InterruptedIOException("cancelled")
}
