// Compiled here against stubs of Android, but never run here. Please report the result of your first run. It
// needs Android 11 (API 30), and otherwise only Coatcheck.kt.
package coatcheck.android

import android.app.Activity
import android.content.DialogInterface
import android.hardware.biometrics.BiometricManager.Authenticators.BIOMETRIC_STRONG
import android.hardware.biometrics.BiometricManager.Authenticators.DEVICE_CREDENTIAL
import android.hardware.biometrics.BiometricPrompt
import android.os.CancellationSignal
import android.security.keystore.KeyGenParameterSpec
import android.security.keystore.KeyPermanentlyInvalidatedException
import android.security.keystore.KeyProperties
import coatcheck.Cancelled
import coatcheck.KeyLost
import coatcheck.PlatformProofKey
import coatcheck.ProofPublicKey
import java.security.KeyPair
import java.security.KeyPairGenerator
import java.security.KeyStore
import java.security.PrivateKey
import java.security.Signature
import java.security.interfaces.ECPublicKey
import java.security.spec.ECGenParameterSpec
import java.util.concurrent.CompletableFuture
import java.util.concurrent.ExecutionException

/**
 * A key in the Android Keystore that asks for the user's presence before each signature (`setUserAuthenticationRequired`).
 * Use it for `Coatcheck.registerPresenceKey`. The session's own key is a [KeystoreProofKey].
 *
 * The prompt shows [title] over the visible [activity]. It accepts a face, a finger, or the device's code. With [enrolledOnly],
 * the prompt refuses the code, and a newly enrolled face or finger makes the key useless. Call it from a background thread.
 */
class KeystorePresenceKey(
    private val title: String, private val activity: () -> Activity, private val enrolledOnly: Boolean = false,
    private val alias: String = "coatcheck-presence"
) : PlatformProofKey() {
    private val authenticators = if (enrolledOnly) BIOMETRIC_STRONG else BIOMETRIC_STRONG or DEVICE_CREDENTIAL

    private fun store(): KeyStore = KeyStore.getInstance("AndroidKeyStore").apply { load(null) }

    override fun pair(): KeyPair? {
        val store = store()
        val key = store.getKey(alias, null) as? PrivateKey ?: return null
        val certificate = store.getCertificate(alias) ?: return null
        return KeyPair(certificate.publicKey, key)
    }

    override fun make(): ProofPublicKey {
        store().deleteEntry(alias)
        val types = if (enrolledOnly) KeyProperties.AUTH_BIOMETRIC_STRONG else KeyProperties.AUTH_BIOMETRIC_STRONG or KeyProperties.AUTH_DEVICE_CREDENTIAL
        val spec = KeyGenParameterSpec.Builder(alias, KeyProperties.PURPOSE_SIGN)
            .setAlgorithmParameterSpec(ECGenParameterSpec("secp256r1")).setDigests(KeyProperties.DIGEST_SHA256)
            // 0 seconds means that each signature needs a prompt of its own.
            .setUserAuthenticationRequired(true).setUserAuthenticationParameters(0, types)
            .setInvalidatedByBiometricEnrollment(enrolledOnly).build()
        val generator = KeyPairGenerator.getInstance(KeyProperties.KEY_ALGORITHM_EC, "AndroidKeyStore")
        generator.initialize(spec)
        return ProofPublicKey(generator.generateKeyPair().public as ECPublicKey)
    }

    override fun sign(bytes: ByteArray): ByteArray = try {
        super.sign(bytes)
    } catch (gone: KeyPermanentlyInvalidatedException) {
        throw KeyLost()
    }

    /** Shows the prompt, and waits for its answer. */
    override fun allowed(signature: Signature): Signature {
        val answer = CompletableFuture<Signature>()
        val closing = CancellationSignal()
        val shown = activity()
        shown.runOnUiThread {
            val prompt = BiometricPrompt.Builder(shown).setTitle(title).setAllowedAuthenticators(authenticators)
            if (enrolledOnly) {
                val no = DialogInterface.OnClickListener { _, _ -> answer.completeExceptionally(Cancelled()) }
                prompt.setNegativeButton(shown.getText(android.R.string.cancel), shown.mainExecutor, no)
            }
            prompt.build().authenticate(
                BiometricPrompt.CryptoObject(signature), closing, shown.mainExecutor,
                object : BiometricPrompt.AuthenticationCallback() {
                    override fun onAuthenticationSucceeded(result: BiometricPrompt.AuthenticationResult) {
                        val allowed: Signature? = result.cryptoObject?.signature
                        if (allowed != null) answer.complete(allowed) else answer.completeExceptionally(IllegalStateException("no signature came back"))
                    }

                    // The message may be missing.
                    override fun onAuthenticationError(code: Int, text: CharSequence?) {
                        val no = code == BiometricPrompt.BIOMETRIC_ERROR_USER_CANCELED || code == BiometricPrompt.BIOMETRIC_ERROR_CANCELED
                        answer.completeExceptionally(if (no) Cancelled() else IllegalStateException(text?.toString() ?: "error $code"))
                    }
                })
        }
        try {
            return answer.get()
        } catch (failed: ExecutionException) {
            throw failed.cause ?: failed
        } catch (left: InterruptedException) {
            closing.cancel()
            Thread.currentThread().interrupt()
            throw Cancelled()
        }
    }
}
