// The keys of a device, and the digests that identify them.
package coatcheck

import java.math.BigInteger
import java.security.KeyPair
import java.security.MessageDigest
import java.security.Signature
import java.security.interfaces.ECPublicKey
import okio.ByteString

/**
 * A P-256 key that owns the sessions of this device (docs/apps/bound-sessions.md). A copied cookie or token is useless
 * without it. On Android, use `KeystoreProofKey`. A key that asks the user before each signature, like
 * `KeystorePresenceKey`, implements the same interface.
 */
interface ProofKey {
    /**
     * Returns the public key, or null if it is lost. Throws if the key exists but is temporarily unavailable.
     */
    fun publicKey(): ProofPublicKey?
    /** Makes a key, which replaces a lost one. Only sign-ins and [Coatcheck.registerPresenceKey] call it. */
    fun make(): ProofPublicKey
    /**
     * Returns the ES256 signature: r and s, 32 bytes each. Throws a [KeyLost] if the key can never sign again, and a
     * [Cancelled] if the user refused.
     */
    fun sign(bytes: ByteArray): ByteArray
}

/** The public half of a [ProofKey], as the coordinates of its point. */
class ProofPublicKey(x: BigInteger, y: BigInteger) {
    constructor(key: ECPublicKey) : this(key.w.affineX, key.w.affineY)

    /** The JSON Web Key with its members sorted by name. RFC 7638 computes the thumbprint from this form. */
    val jwk: String = """{"crv":"P-256","kty":"EC","x":"${base64Url(x.word())}","y":"${base64Url(y.word())}"}"""
    /** The thumbprint, which identifies the key in a session. */
    val thumbprint: String = base64Url(sha256(jwk))
}

/** A [ProofKey] that uses the platform's own cryptography. Subclasses provide the pair of keys. */
abstract class PlatformProofKey : ProofKey {
    /** Returns the pair, or null if it is missing. */
    protected abstract fun pair(): KeyPair?

    override fun publicKey(): ProofPublicKey? = pair()?.let { ProofPublicKey(it.public as ECPublicKey) }

    override fun sign(bytes: ByteArray): ByteArray {
        val signature = Signature.getInstance("SHA256withECDSA")
        signature.initSign((pair() ?: throw KeyLost()).private)
        return raw(allowed(signature).apply { update(bytes) }.sign())
    }

    /** Asks the user to allow the use of the key, if the key requires that. Returns the signature object that may sign now. */
    protected open fun allowed(signature: Signature): Signature = signature

    /** Converts the two numbers of a signature from DER into 32 bytes each. */
    private fun raw(der: ByteArray): ByteArray {
        val first = der[3].toInt()
        val second = der[5 + first].toInt()
        return BigInteger(der.copyOfRange(4, 4 + first)).word() + BigInteger(der.copyOfRange(6 + first, 6 + first + second)).word()
    }
}

internal fun base64Url(bytes: ByteArray): String = ByteString.of(*bytes).base64Url().trimEnd('=')

internal fun sha256(text: String): ByteArray = MessageDigest.getInstance("SHA-256").digest(text.toByteArray())

/** A number as 32 bytes. */
internal fun BigInteger.word(): ByteArray = toByteArray().let { ByteArray(maxOf(0, 32 - it.size)) + it.takeLast(32).toByteArray() }
