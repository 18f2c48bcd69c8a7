// For apps with coroutines: any blocking call of Coatcheck's as a suspending one, which is cancelled with its caller. Needs
// kotlinx-coroutines-core, nothing else.
//
//     val session = coatcheck.suspending { session() }
package coatcheck

import java.util.concurrent.ExecutorService
import java.util.concurrent.Executors
import kotlin.coroutines.resume
import kotlin.coroutines.resumeWithException
import kotlinx.coroutines.suspendCancellableCoroutine

private val threads: ExecutorService = Executors.newCachedThreadPool { work -> Thread(work, "coatcheck").apply { isDaemon = true } }

/** Does blocking work of this broker's on a thread of its own, and has it come back at once when the caller is cancelled. */
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
        // After this nobody interrupts the thread, which goes on with other work; who left off wants no answer.
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
