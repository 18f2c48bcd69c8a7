// Not compiled here, because the project's tests lack Android and Compose. Please report the result of a build.
package shop

import android.app.Application
import android.content.Intent
import android.os.Bundle
import androidx.activity.ComponentActivity
import androidx.activity.compose.setContent
import androidx.activity.viewModels
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.padding
import androidx.compose.material3.Button
import androidx.compose.material3.CircularProgressIndicator
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.runtime.getValue
import androidx.compose.runtime.mutableStateOf
import androidx.compose.runtime.setValue
import androidx.compose.runtime.snapshotFlow
import androidx.compose.ui.Modifier
import androidx.compose.ui.unit.dp
import androidx.lifecycle.AndroidViewModel
import androidx.lifecycle.Lifecycle
import androidx.lifecycle.lifecycleScope
import androidx.lifecycle.repeatOnLifecycle
import androidx.lifecycle.viewModelScope
import coatcheck.Coatcheck
import coatcheck.android.KeystoreStorage
import coatcheck.android.callback
import coatcheck.android.openSignIn
import kotlinx.coroutines.flow.collectLatest
import kotlinx.coroutines.launch
import okhttp3.HttpUrl.Companion.toHttpUrl

class ShopModel(app: Application) : AndroidViewModel(app) {
    var screen by mutableStateOf(Screen(starting = true))
        private set
    private val shop = Shop(Coatcheck("http://127.0.0.1:8080".toHttpUrl(), "android", KeystoreStorage(app))) { screen = it }

    init { act { start() } }

    /** Follows the session of each user that signs in, until it is cancelled. */
    suspend fun follow() = snapshotFlow { screen.user != null }.collectLatest { if (it) shop.follow() }

    fun act(work: suspend Shop.() -> Unit) { viewModelScope.launch { shop.work() } }
}

/** The manifest gives this activity `android:launchMode="singleTask"`, and an intent filter for the scheme `com.example.android`. */
class ShopActivity : ComponentActivity() {
    private val model by viewModels<ShopModel>()

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        if (saved == null) finishSignIn(intent)
        lifecycleScope.launch { repeatOnLifecycle(Lifecycle.State.STARTED) { model.follow() } }
        setContent {
            ShopScreen(model.screen, { model.act { signIn()?.let { openSignIn(this@ShopActivity, it) } } }, { model.act(it) })
        }
    }

    override fun onNewIntent(intent: Intent) {
        super.onNewIntent(intent)
        finishSignIn(intent)
    }

    private fun finishSignIn(intent: Intent) { callback(intent)?.let { model.act { finish(it) } } }
}

@Composable
fun ShopScreen(screen: Screen, signIn: () -> Unit, act: (suspend Shop.() -> Unit) -> Unit) = Column(Modifier.padding(20.dp)) {
    when {
        screen.starting -> CircularProgressIndicator()
        screen.user == null -> {
            screen.ended?.let { Text("Your session has ended ($it).") }
            Button(signIn) { Text("Sign in") }
        }
        else -> {
            Text("Hello, ${screen.user}")
            Button({ act { loadOrders() } }) { Text("Load my orders") }
            Text(screen.orders)
            Button({ act { signOut() } }) { Text("Sign out") }
        }
    }
    Text(screen.message)
}
