// Compiled here against stubs of Android, but never run here. Please report the result of your first run. It
// needs only Coatcheck.kt.
package coatcheck.android

import android.os.Build
import android.security.keystore.KeyGenParameterSpec
import android.security.keystore.KeyPermanentlyInvalidatedException
import android.security.keystore.KeyProperties
import android.security.keystore.StrongBoxUnavailableException
import coatcheck.KeyLost
import coatcheck.PlatformProofKey
import coatcheck.ProofPublicKey
import java.security.KeyPair
import java.security.KeyPairGenerator
import java.security.KeyStore
import java.security.PrivateKey
import java.security.interfaces.ECPublicKey
import java.security.spec.ECGenParameterSpec

/**
 * A key in the Android Keystore, which cannot be extracted, neither from a backup nor from an unlocked device. With
 * [strongBox], it is made in StrongBox if the device has one (API 28), but signs more slowly. It signs without a prompt,
 * because passes are renewed in the background. It stays valid if a face or finger is enrolled.
 */
class KeystoreProofKey(private val alias: String = "coatcheck-key", private val strongBox: Boolean = false) : PlatformProofKey() {
    private fun store(): KeyStore = KeyStore.getInstance("AndroidKeyStore").apply { load(null) }

    // If the Keystore is busy, this throws, and the user stays signed in.
    override fun pair(): KeyPair? {
        val store = store()
        val key = store.getKey(alias, null) as? PrivateKey ?: return null
        val certificate = store.getCertificate(alias) ?: return null
        return KeyPair(certificate.publicKey, key)
    }

    override fun make(): ProofPublicKey {
        store().deleteEntry(alias)
        if (!strongBox || Build.VERSION.SDK_INT < 28) return made(false)
        return try { made(true) } catch (none: StrongBoxUnavailableException) { made(false) }
    }

    private fun made(inStrongBox: Boolean): ProofPublicKey {
        val spec = KeyGenParameterSpec.Builder(alias, KeyProperties.PURPOSE_SIGN)
            .setAlgorithmParameterSpec(ECGenParameterSpec("secp256r1")).setDigests(KeyProperties.DIGEST_SHA256)
        if (inStrongBox) spec.setIsStrongBoxBacked(true)
        val generator = KeyPairGenerator.getInstance(KeyProperties.KEY_ALGORITHM_EC, "AndroidKeyStore")
        generator.initialize(spec.build())
        return ProofPublicKey(generator.generateKeyPair().public as ECPublicKey)
    }

    override fun sign(bytes: ByteArray): ByteArray = try {
        super.sign(bytes)
    } catch (gone: KeyPermanentlyInvalidatedException) {
        throw KeyLost()
    }
}
