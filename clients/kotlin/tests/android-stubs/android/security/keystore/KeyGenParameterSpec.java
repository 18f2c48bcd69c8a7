// android.security.keystore.KeyGenParameterSpec.Builder: setAlgorithmParameterSpec, setDigests, setBlockModes,
// setEncryptionPaddings, setUserAuthenticationRequired, setUserAuthenticationParameters (API 30),
// setInvalidatedByBiometricEnrollment (API 24), setIsStrongBoxBacked (API 28), build
package android.security.keystore;

import android.annotation.NonNull;
import java.security.spec.AlgorithmParameterSpec;

public final class KeyGenParameterSpec implements AlgorithmParameterSpec {
    public static final class Builder {
        public Builder(@NonNull String keystoreAlias, int purposes) { throw new RuntimeException(); }

        public Builder setAlgorithmParameterSpec(@NonNull AlgorithmParameterSpec spec) { throw new RuntimeException(); }

        @NonNull
        public Builder setDigests(String... digests) { throw new RuntimeException(); }

        @NonNull
        public Builder setBlockModes(String... blockModes) { throw new RuntimeException(); }

        @NonNull
        public Builder setEncryptionPaddings(String... paddings) { throw new RuntimeException(); }

        @NonNull
        public Builder setUserAuthenticationRequired(boolean required) { throw new RuntimeException(); }

        @NonNull
        public Builder setUserAuthenticationParameters(int timeout, int type) { throw new RuntimeException(); }

        @NonNull
        public Builder setInvalidatedByBiometricEnrollment(boolean invalidateKey) { throw new RuntimeException(); }

        @NonNull
        public Builder setIsStrongBoxBacked(boolean isStrongBoxBacked) { throw new RuntimeException(); }

        @NonNull
        public KeyGenParameterSpec build() { throw new RuntimeException(); }
    }
}
