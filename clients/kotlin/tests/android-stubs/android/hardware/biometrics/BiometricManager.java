// android.hardware.biometrics.BiometricManager.Authenticators: BIOMETRIC_STRONG, DEVICE_CREDENTIAL (API 30)
package android.hardware.biometrics;

public class BiometricManager {
    public interface Authenticators {
        int BIOMETRIC_STRONG = 0x000F;
        int DEVICE_CREDENTIAL = 1 << 15;
    }
}
