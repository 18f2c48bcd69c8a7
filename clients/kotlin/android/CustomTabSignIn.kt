// Compiled here against stubs of Android, but never run here. Please report the result of your first run. It
// needs only androidx.browser.
package coatcheck.android

import android.content.Context
import android.content.Intent
import android.net.Uri
import android.util.Base64
import androidx.browser.customtabs.CustomTabsIntent
import coatcheck.Cancelled
import coatcheck.Credentials
import coatcheck.CredentialStorage
import coatcheck.SignInBrowser
import java.util.concurrent.CompletableFuture
import java.util.concurrent.ExecutionException
import java.security.KeyStore
import javax.crypto.AEADBadTagException
import javax.crypto.Cipher
import javax.crypto.KeyGenerator
import javax.crypto.SecretKey
import javax.crypto.spec.GCMParameterSpec
import android.security.keystore.KeyGenParameterSpec
import android.security.keystore.KeyPermanentlyInvalidatedException
import android.security.keystore.KeyProperties
import okhttp3.HttpUrl

/**
 * Opens a sign-in page. The redirect URI leads back to an activity that has this intent filter in the manifest:
 *
 *     <activity android:name=".CallbackActivity" android:exported="true" android:launchMode="singleTask">
 *       <intent-filter>
 *         <action android:name="android.intent.action.VIEW"/>
 *         <category android:name="android.intent.category.DEFAULT"/><category android:name="android.intent.category.BROWSABLE"/>
 *         <data android:scheme="com.example.app"/>
 *       </intent-filter>
 *     </activity>
 *
 * The activity passes `intent.dataString` to `Coatcheck.finish` on a background thread. For https redirect URIs use
 * `android:autoVerify="true"` and the broker's `app_links.android`.
 */
fun openSignIn(context: Context, page: HttpUrl) {
    CustomTabsIntent.Builder().setShareState(CustomTabsIntent.SHARE_STATE_OFF).build()
        .launchUrl(context, Uri.parse(page.toString()))
}

/**
 * A browser that opens the page of a step-up in a Custom Tab, and waits for the callback. The activity of the callback calls
 * [cameBack] first. If [cameBack] returns false, the app started the sign-in itself or was restarted meanwhile, and the
 * activity calls `Coatcheck.finish`.
 *
 * The app is not notified if the user closes the tab. Call [closed] if the app is in front again without a callback.
 */
class CustomTabBrowser(private val context: Context) : SignInBrowser {
    private var waiting: CompletableFuture<String>? = null

    override fun open(page: HttpUrl): String {
        val answer = CompletableFuture<String>()
        synchronized(this) { waiting = answer }
        openSignIn(context, page)
        try {
            return answer.get()
        } catch (failed: ExecutionException) {
            throw failed.cause ?: failed
        } finally {
            synchronized(this) { if (waiting === answer) waiting = null }
        }
    }

    fun cameBack(callback: String): Boolean = synchronized(this) { waiting }?.complete(callback) ?: false

    fun closed() { synchronized(this) { waiting }?.completeExceptionally(Cancelled()) }
}

/** Returns the unchanged URL of the callback, or null for another intent. */
fun callback(intent: Intent): String? = if (intent.action == Intent.ACTION_VIEW) intent.dataString else null

/**
 * A storage in the app's preferences, encrypted by a key that never leaves the Android Keystore. For two accounts on one
 * device, use two [account] names.
 */
class KeystoreStorage(context: Context, account: String = "coatcheck") : CredentialStorage {
    // Exclude this file from backups (dataExtractionRules), because the key stays on the device.
    private val preferences = context.getSharedPreferences(account, Context.MODE_PRIVATE)

    private fun key(): SecretKey {
        val store = KeyStore.getInstance("AndroidKeyStore").apply { load(null) }
        (store.getKey("coatcheck", null) as? SecretKey)?.let { return it }
        return KeyGenerator.getInstance(KeyProperties.KEY_ALGORITHM_AES, "AndroidKeyStore").apply {
            init(
                KeyGenParameterSpec.Builder("coatcheck", KeyProperties.PURPOSE_ENCRYPT or KeyProperties.PURPOSE_DECRYPT)
                    .setBlockModes(KeyProperties.BLOCK_MODE_GCM).setEncryptionPaddings(KeyProperties.ENCRYPTION_PADDING_NONE)
                    .build())
        }.generateKey()
    }

    @Synchronized override fun read(): Credentials? {
        val sealed = preferences.getString("credentials", null)?.let { Base64.decode(it, Base64.NO_WRAP) } ?: return null
        return try {
            val cipher = Cipher.getInstance("AES/GCM/NoPadding")
            cipher.init(Cipher.DECRYPT_MODE, key(), GCMParameterSpec(128, sealed, 0, 12))
            Credentials.fromJson(String(cipher.doFinal(sealed, 12, sealed.size - 12), Charsets.UTF_8))
        } catch (foreign: AEADBadTagException) {
            null // The credentials belong to another installation, so the user has to sign in again.
        } catch (gone: KeyPermanentlyInvalidatedException) {
            null // The key has become useless for good, so the user has to sign in again.
        }
        // Other errors are temporary, such as a busy Keystore. They are thrown, and the user stays signed in.
    }

    @Synchronized override fun write(credentials: Credentials?) {
        // `commit` instead of `apply`, because the login's secret must be stored before its page is opened.
        if (credentials == null) { preferences.edit().remove("credentials").commit(); return }
        val cipher = Cipher.getInstance("AES/GCM/NoPadding")
        cipher.init(Cipher.ENCRYPT_MODE, key())
        val sealed = cipher.iv + cipher.doFinal(credentials.toJson().toByteArray())
        preferences.edit().putString("credentials", Base64.encodeToString(sealed, Base64.NO_WRAP)).commit()
    }
}
