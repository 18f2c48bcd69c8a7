// android.hardware.biometrics.BiometricPrompt: authenticate, BIOMETRIC_ERROR_CANCELED, BIOMETRIC_ERROR_USER_CANCELED.
// BiometricPrompt.Builder: setTitle, setAllowedAuthenticators (API 30), setNegativeButton, build.
// BiometricPrompt.CryptoObject: getSignature. BiometricPrompt.AuthenticationResult: getCryptoObject.
// BiometricPrompt.AuthenticationCallback: onAuthenticationSucceeded, onAuthenticationError. Their arguments are not annotated.
package android.hardware.biometrics;

import android.annotation.NonNull;
import android.annotation.Nullable;
import android.content.Context;
import android.content.DialogInterface;
import android.os.CancellationSignal;
import java.security.Signature;
import java.util.concurrent.Executor;

public class BiometricPrompt {
    public static final int BIOMETRIC_ERROR_CANCELED = 5;
    public static final int BIOMETRIC_ERROR_USER_CANCELED = 10;

    public void authenticate(
        @NonNull CryptoObject crypto, @NonNull CancellationSignal cancel, @NonNull Executor executor,
        @NonNull AuthenticationCallback callback) { throw new RuntimeException(); }

    public static class Builder {
        public Builder(Context context) { throw new RuntimeException(); }

        @NonNull
        public Builder setTitle(@NonNull CharSequence title) { throw new RuntimeException(); }

        @NonNull
        public Builder setAllowedAuthenticators(int authenticators) { throw new RuntimeException(); }

        @NonNull
        public Builder setNegativeButton(
            @NonNull CharSequence text, @NonNull Executor executor, @NonNull DialogInterface.OnClickListener listener) {
            throw new RuntimeException();
        }

        @NonNull
        public BiometricPrompt build() { throw new RuntimeException(); }
    }

    public static final class CryptoObject {
        public CryptoObject(@NonNull Signature signature) { throw new RuntimeException(); }

        @Nullable
        public Signature getSignature() { throw new RuntimeException(); }
    }

    public static class AuthenticationResult {
        public CryptoObject getCryptoObject() { throw new RuntimeException(); }
    }

    public abstract static class AuthenticationCallback {
        public void onAuthenticationError(int errorCode, CharSequence errString) {}

        public void onAuthenticationSucceeded(AuthenticationResult result) {}
    }
}
