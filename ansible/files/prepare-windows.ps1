# Prepares a Windows ground station for Ansible, once, in an elevated PowerShell:
#
#   powershell -ExecutionPolicy Bypass -File prepare-windows.ps1 -Controller 192.0.2.1 -PublicKey "ssh-ed25519 AAAA... name"
#
# OpenSSH server with that key alone, reachable from that address alone; PowerShell as its shell; Python for all users.
# Run it again with other values to change them; with -Undo it takes back what it set (OpenSSH and Python stay).
param(
    [string] $Controller = '',
    [string] $PublicKey = '',
    [switch] $Undo
)
$ErrorActionPreference = 'Stop'
$rule = 'PQ-MAV Lab ssh'
$keys = "$env:ProgramData\ssh\administrators_authorized_keys"
$mark = ' # pqlab'
$windowsRule = 'OpenSSH-Server-In-TCP'
# There while Windows' own rule is off because of this script.
$ruleWasOn = "$env:ProgramData\ssh\pqlab-rule-was-on"

function Stop-Preparation([string] $What, [string] $Next) {
    Write-Host "error: $What`n  next: $Next"
    exit 1
}

$me = [Security.Principal.WindowsPrincipal][Security.Principal.WindowsIdentity]::GetCurrent()
if (-not $me.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)) {
    Stop-Preparation 'this needs an administrator' 'start PowerShell with "Run as administrator"'
}
if (-not [Environment]::Is64BitOperatingSystem -or $env:PROCESSOR_ARCHITECTURE -ne 'AMD64') {
    Stop-Preparation "the artefacts are for windows/amd64, this is $env:PROCESSOR_ARCHITECTURE" 'use such a machine'
}
if ([Environment]::OSVersion.Version.Build -lt 17763) {
    Stop-Preparation 'this Windows is older than 10 1809 or Server 2019' 'update Windows'
}

function Set-OurKey([string] $Key) {
    $kept = @()
    if (Test-Path -LiteralPath $keys) {
        $kept = @(Get-Content -LiteralPath $keys | Where-Object { -not $_.EndsWith($mark) })
    }
    if ($Key) { $kept += $Key + $mark }
    Set-Content -LiteralPath $keys -Value $kept -Encoding ascii
    # sshd refuses the file while anybody but these two may write it; by SID, whatever the language
    icacls $keys /inheritance:r /grant '*S-1-5-32-544:F' '*S-1-5-18:F' | Out-Null
}

if ($Undo) {
    Get-NetFirewallRule -DisplayName $rule -ErrorAction SilentlyContinue | Remove-NetFirewallRule
    if (Test-Path -LiteralPath $ruleWasOn) {
        Enable-NetFirewallRule -Name $windowsRule
        Remove-Item -LiteralPath $ruleWasOn
    }
    Set-OurKey ''
    Remove-ItemProperty -Path 'HKLM:\SOFTWARE\OpenSSH' -Name DefaultShell -ErrorAction SilentlyContinue
    Write-Host 'key, firewall rules and shell are as before; OpenSSH and Python stay'
    exit 0
}
if (-not $Controller) {
    Stop-Preparation 'no controller was given' 'give -Controller with the address that Ansible comes from'
}
if ($PublicKey -notmatch '^(ssh-ed25519|ecdsa-sha2-nistp256|ssh-rsa) [A-Za-z0-9+/=]+') {
    Stop-Preparation 'no public key was given' 'give -PublicKey with the content of the controller''s ~/.ssh/id_ed25519.pub'
}

$server = Get-WindowsCapability -Online -Name 'OpenSSH.Server*'
if ($server.State -ne 'Installed') { $server | Add-WindowsCapability -Online | Out-Null }
Set-Service sshd -StartupType Automatic
Start-Service sshd
Set-OurKey $PublicKey
New-ItemProperty -Path 'HKLM:\SOFTWARE\OpenSSH' -Name DefaultShell -PropertyType String -Force `
    -Value "$env:SystemRoot\System32\WindowsPowerShell\v1.0\powershell.exe" | Out-Null

# Windows' own rule lets anybody in: ours lets in the controller alone.
$open = Get-NetFirewallRule -Name $windowsRule -ErrorAction SilentlyContinue | Where-Object Enabled -eq 'True'
if ($open) {
    # Where OpenSSH came with this script, nobody could reach it before, and nobody shall after.
    if ($server.State -eq 'Installed') { Set-Content -LiteralPath $ruleWasOn -Value $windowsRule -Encoding ascii }
    $open | Disable-NetFirewallRule
}
Get-NetFirewallRule -DisplayName $rule -ErrorAction SilentlyContinue | Remove-NetFirewallRule
New-NetFirewallRule -DisplayName $rule -Group 'PQ-MAV Lab access' -Direction Inbound -Action Allow -Protocol TCP `
    -LocalPort 22 -RemoteAddress $Controller | Out-Null

$python = 'C:\Program Files\Python313\python.exe'
if (-not (Test-Path -LiteralPath $python)) {
    if (-not (Get-Command winget -ErrorAction SilentlyContinue)) {
        Stop-Preparation 'winget is not here' 'install 64-bit Python 3.13 for all users by its own installer, then set gcs_windows_python'
    }
    winget install --exact --id Python.Python.3.13 --scope machine --architecture x64 --silent `
        --accept-package-agreements --accept-source-agreements
    if ($LASTEXITCODE -ne 0) { Stop-Preparation "winget ended with $LASTEXITCODE" 'install 64-bit Python 3.13 for all users by hand' }
}

Write-Host "ready. In inventory.ini, host variables of the gcs:"
Write-Host "  ansible_user=$env:USERNAME ansible_connection=ssh ansible_shell_type=powershell pqlab_platform=windows/amd64"
Write-Host 'host key, to compare at the first connection:'
ssh-keygen -lf "$env:ProgramData\ssh\ssh_host_ed25519_key.pub"
