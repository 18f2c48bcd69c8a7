// For apps with coroutines. It turns a blocking call of Coatcheck into a suspending call, which is cancelled with its caller.
// It needs only kotlinx-coroutines-core.
//
//     val session = coatcheck.suspending { session() }
package coatcheck

import java.util.concurrent.ExecutorService
import java.util.concurrent.Executors
import kotlin.coroutines.resume
import kotlin.coroutines.resumeWithException
import kotlinx.coroutines.suspendCancellableCoroutine

private val threads: ExecutorService = Executors.newCachedThreadPool { work -> Thread(work, "coatcheck").apply { isDaemon = true } }

/** Runs blocking work of this broker on its own thread. The work returns at once if the caller is cancelled. */
suspend fun <Value> Coatcheck.suspending(work: Coatcheck.() -> Value): Value = suspendCancellableCoroutine { continuation ->
    val lock = Any()
    var thread: Thread? = null
    var over = false
    threads.execute {
        synchronized(lock) { if (over) return@execute else thread = Thread.currentThread() }
        var answer: (() -> Unit)
        try {
            val value = work()
            answer = { continuation.resume(value) }
        } catch (failed: Throwable) {
            answer = { continuation.resumeWithException(failed) }
        }
        // From here on, the thread must not be interrupted, because it goes on with other work. If the caller was cancelled, it
        // needs no result.
        val wanted = synchronized(lock) {
            Thread.interrupted()
            !over.also { over = true }
        }
        if (wanted) answer()
    }
    continuation.invokeOnCancellation {
        synchronized(lock) {
            val at = thread
            if (!over && at != null) cancel(at)
            over = true
        }
    }
}
