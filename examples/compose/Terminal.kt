package shop

import coatcheck.Coatcheck
import coatcheck.MemoryStorage
import coatcheck.toHttpUrl // with OkHttp 3; later versions have okhttp3.HttpUrl.Companion.toHttpUrl
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

/** Runs the model in a terminal: signs in, calls the API, and signs out. */
fun main() = runBlocking {
    val broker = System.getenv("COATCHECK_URL") ?: error("COATCHECK_URL has to be the broker's address")
    var screen = Screen()
    val shop = Shop(Coatcheck(broker.toHttpUrl(), "android", MemoryStorage())) { screen = it }
    shop.start()
    println("at the start: $screen")
    shop.signIn()?.let { shop.finish(open(it)) }
    println("after the sign-in: $screen")
    shop.loadOrders()
    println("the API answers ${screen.orders} ${screen.message}")
    shop.signOut()
    println("after the sign-out: $screen")
}
