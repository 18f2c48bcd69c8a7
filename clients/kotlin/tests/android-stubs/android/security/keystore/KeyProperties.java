// android.security.keystore.KeyProperties: KEY_ALGORITHM_EC, KEY_ALGORITHM_AES, PURPOSE_ENCRYPT, PURPOSE_DECRYPT, PURPOSE_SIGN,
// DIGEST_SHA256, BLOCK_MODE_GCM, ENCRYPTION_PADDING_NONE, AUTH_DEVICE_CREDENTIAL and AUTH_BIOMETRIC_STRONG (API 30)
package android.security.keystore;

public abstract class KeyProperties {
    public static final String KEY_ALGORITHM_EC = "EC";
    public static final String KEY_ALGORITHM_AES = "AES";
    public static final int PURPOSE_ENCRYPT = 1 << 0;
    public static final int PURPOSE_DECRYPT = 1 << 1;
    public static final int PURPOSE_SIGN = 1 << 2;
    public static final String DIGEST_SHA256 = "SHA-256";
    public static final String BLOCK_MODE_GCM = "GCM";
    public static final String ENCRYPTION_PADDING_NONE = "NoPadding";
    public static final int AUTH_DEVICE_CREDENTIAL = 1 << 0;
    public static final int AUTH_BIOMETRIC_STRONG = 1 << 1;
}
