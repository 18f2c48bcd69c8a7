package shop

import coatcheck.Coatcheck
import coatcheck.MemoryStorage
import coatcheck.toHttpUrl // with OkHttp 3; later versions have okhttp3.HttpUrl.Companion.toHttpUrl
import kotlin.system.exitProcess
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import okhttp3.HttpUrl
import okhttp3.OkHttpClient
import okhttp3.Request

/** A browser for tests. The sandbox's page signs Ana in at once if its URL has her name. Returns the URL of the callback. */
fun open(page: HttpUrl): String {
    val browser = OkHttpClient.Builder().followRedirects(false).build()
    val request = Request.Builder().url(page.newBuilder().addQueryParameter("sandbox_user", "ana").build()).build()
    return browser.newCall(request).execute().use { it.header("Location") } ?: error("the sandbox does not lead back")
}

/**
 * Runs the model in a terminal: signs in, calls the API, and signs out. With the argument `follow`, it waits for the end of the
 * session instead of the sign-out.
 */
fun main(arguments: Array<String>) = runBlocking {
    val broker = System.getenv("COATCHECK_URL") ?: error("COATCHECK_URL has to be the broker's address")
    var screen = Screen()
    val shop = Shop(Coatcheck(broker.toHttpUrl(), "android", MemoryStorage())) { screen = it }
    // Prints a state, and exits after a failure.
    fun report(words: String, state: Any) {
        println("$words $state")
        if (screen.message != "") {
            println("failed: ${screen.message}")
            exitProcess(1)
        }
    }
    shop.start()
    report("at the start:", screen)
    shop.signIn()?.let { shop.finish(open(it)) }
    report("after the sign-in:", screen)
    if (screen.user == null) exitProcess(1)
    val following = launch { shop.follow() }
    shop.loadOrders()
    report("the API answers", screen.orders)
    if ("follow" !in arguments) {
        shop.signOut()
        report("after the sign-out:", screen)
    }
    following.join()
    report("the session's end:", screen.ended ?: "signed out here")
}
