"""Snapshots that were written before something was added to them are still read, and go on as they should."""

import base64
import zlib
from typing import Any

import muntin as mt

# Written by the commit 42047e8, which kept no bounds of rows that a condition took back.
WITHOUT_LAST_SHOWN = (
    "c-rk7O>f-"
    "BmE2veR7XK{Py!)!(gk540lGHG)#}4Wlk6b}7ia<>+LJ1*C~<a|FqdRVuB1Q~s)K((fLsj3Km^1GA9C<52ATl6^cJ8-"
    "Q4~gzgAN7aqmL=j+L<>q<PK*^E_bCh<Uo^bhBNQYoA=(luc4Ta{`B!5fB&&0%aSDhcvT|pi_5KRkN*DUU%&d#CGDG6U%UO@J"
    "4bhJ&s-_J)%fP~@BVi5@0D4Kx2G7$-||d1FdbXDR@qYmvy1S95-8P*aua=upVyR|$~qqH=mGM&x_1-"
    "Lsd#MRv5kBm50_vZn6T3BSr#7nf#VTEdM|K*)+asWnFx^A))ZGaJs;2RDLbZZI6GvQEvIJ(&7jxav`o8App>U=-"
    "Rc3Y+WtQ9p|{%}YU9lrvA_v*i=yk4dB4|%Ew>!2*R=_jvQ0#Abq}LpF<^2JlY_}{RmhZrx@OQsT{i&fTe{_=a1yT%OuSiqnu"
    "uuu3ra`d2Hrt|z*Xh_%8~+1uPH6qc|hi%;~~G}SVoh;2{;tD|Ae{U$HW~sKKnkI-"
    "Nb4$Vt_rRWjQ)wOWoD3sC;vOt10`itZUj$4{bS~;l~zh$x60k3MNM-sCcM;BMqF6f^Do^jVaf2tjK0K?efzWvfDu?ChF3}MD"
    "1@pwyadJu4xS#jYB!?BHizKf~9ncO+?6XW8+;bK_8k*tgO}YQ4j+xV(})Xt5C!fYO3v-#(;N?E3i5-"
    "X&IYwVFRx>lC0aNZw3Qq;p13rGTUhD@mNuxm_QLPCpf>59)z)F{M<5a)9;XBxPXPKrU@xwg=L?n;W@5L@MuEvgQg$oU6;#H>"
    "=7TnX;WX}^VnjIpm}ZN2jS4QbeeZ;v<s7Kn57!9*mArs4VEg&7nW{<0u`-"
    "4+9%v2%b*H|ooO;+8Hk7jXQ+Wp&JHMUEt+2!@}yerXC<0fxpYUs>N+$=FAA^`u1)YX4zE__qf-XrVzuv@8EExtWYZZ~OI6NL"
    "((u+v<kHQ626$q6y6x{!yXy;%*8zx`JAnbo^(wRA*o^DoT}8BQ6YWq9YoLCnmo=i%C19so(IPF-"
    "Y5brqviWslk01}Dy9R1d$-"
    "f$149k}2M744?nxZ(2K5z$QoL=N<zN<5eb$X`DgbDnxSPKb|9RQ}Oj2CQSO;QC=|HL!QFPfXEMa!_uwH2bC?k4sEvIFK0Pt{"
    "hb);oxxMH<2`K+y;|&^N6xWZ;?*4slT<4AFWK^HQ&qVR&A6=4y?P%U4&3DB-"
    "D9RBn!(T1BnUnz34`*H>fnF0u`3uPe)H91@)_UZqiL;T%s;RYg#rrl!{FB9sZaR2x`lnLdslxbVPK2iG~6EP*Z8Qx?`T7S^&"
    "BE`s>0$qNBiV@l&-"
    "VCICI)s<Qz3^vp>Eg1+zwUBD?sY@b3Z512c{&U=1e0`WBmxv3}tW=h!q#68#n_QCMb}@thk)#s)FP_G~d9r36&y}TVf;Goz$"
    "WzcSFkFe@-"
    "z4KwGza_MVRWF)N^h{8X9+c_SRynQq_ADU&$EOJ;O!5L=YrI4MJc_pTN2|jzD^d#N%Q(<pYO0gI9<IJps#RxgC3kxBD7}lZ<"
    "^2o<c2iJ&w~;9DKI_4^Y?@f<>8`mc6Q4CDRLA=8dD$#M0|`3_+{<{V)~Rv;~(hE<28?Pe;5Bc_*ZAJc}|{rju)^Ie2*d<hH^"
    "AG+yz1Zkl5i_<?!7Md?;Mtd4t10Ou+}ev~WoP3qIrUA7$X<n#cqEBMyHQd)ji0q4u;Z5BJNX6u<m|*<dNb_mWyg=+ovK0=yx"
    ">Hw5^G06!4m2Lk+1fFCCCRTkuuCNSn>Pu4hWZwtN5@e1uXf*ez<pH6`nh4?57{V@2sKcD;axj*Ok=VAVOmi+m_i2e*beJE36"
    "-{TJIJp+7?!Jj-Meo;*FY4wUG{fq2fkmjEE@h%SFsYE+`U2*RJ$@SsFi022tuUQ;k4eQYn&*C1%FN^qK8_qWJj2?>a1&=b$A"
    "(V4mJ>{vR7jneO2Ptv#E{l`XoR80B#K~2mPn&lIxGVVQt^nUnpj#67lExUzLY$Zq;!RmtSCR5HIi-"
    ")crys<}mxS~&$Hp^_5dWn2qU-EA%_c!!xLYG*e4F$UveRr5_<oq<eq2eh$3G|Bk4qWnFemg`^M!=_a$(3hmxO$CUMHU2JaLl"
    "qfI7?K^2K~gzJUI69VdAqUwoLMV~h_8Myhi<2vXi#5d0e81N{=A5B$DN`6y4_{&Yy)KAp2}pL9N&9#Xf5^dAcFhY5U@Pa&V3"
    "-FzpL??1%)Jly|vfv;b&{*A<Z8Ro-z)-"
    "N^U*DZzh%MITDk4MaxMRv}i&)>`NNo2H<=#&4<h}m1cU}E|8Nsj#bZi;{1O31I}Q^>Dr_h#`u_ptn1kj87g9Xy=C`((hid)-"
    "as(O5pt*@Dk)qPA&c5?S%{Wv-"
    "u|3oYxM)Dh3=MVvFlCC4*NTerwTk8{ptR#yRmU+Outb|mx@Ip>WL>$)jcU)*PTzQN|}+?n&|HOtPcxzlkhME(0+?%XY|7F<X"
    "<=YOzwK6f}=(f3L1obaw8%N9FkyMx%OZ*$t>rHr_hWslc$)NMCX?D5+Kd%Q5gyb{7y0j>)0wD-"
    "0AzEfl5r7`oC;4eS@CEh=M9`B<v^MLn<Cu7t(x41gzFyq|-"
    "{g^BN{f^|b7j(bd9pipC$KK)I74CNn8FwT<aLDywhLh=fjyvuuhrgRr8-ksfh9nsr?!AmU64}O?IE%dZx{V?Cx<bx--C2nbH"
    "w5^N1is1>h#!R^_b?G&9I|dosP)CaznuHo%jIV`<g@YqB!u4=;P(aiu>e07;0wYFg>d|$-"
    "=Cb$d;dYdlv4a#^yi{b%csG|ZU1BUvi}SBvo}-r`}GOmEAesV>4<R!`rCL-L#FZNnEhQ3-"
    "r4*v{5#*X<l6Za{A2%jLKA%Z@LAtikDn#q1779Ugt6u^x9&WajaR=t&JoX~lz4Vg9{i4D?icVK$5G0~pfV(0R)oLPPWn5Lyx"
    ")mPL*nAF??{T-_03UQFXD@FNKUDLLim4K94w}ci(G6-8uRgOW{mF?4%xRQ;okudQv4d^=th6bqyF`E%6kdG-"
    "4@<4Jf^rqzj4m;eewI+AjiG!XBR7)&H"
)


def queries() -> list[Any]:
    return [
        mt.count_tumbling(2).agg(total=mt.sum("v"), having="total > 5", name="pairs"),
        mt.threshold_frame("v", ">", 2.0).agg(n=mt.count(), having="n > 1", name="frames"),
        mt.rolling(5).agg(n=mt.count(), name="rolling"),
        mt.on("m", mt.tumbling(10, offset=3)).agg(n=mt.count(), name="miles"),
        mt.tumbling(10).agg(n=mt.count(), emit_empty=True, name="grid"),
        mt.session(4).agg(n=mt.count(), name="visits"),
    ]


def batch(*rows: tuple[int, str, float, int]) -> dict[str, list[Any]]:
    """Records of a time, a key, a value and a measure."""
    return dict(zip(("t", "k", "v", "m"), map(list, zip(*rows, strict=True)), strict=True))


def test_a_snapshot_without_the_bounds_last_shown():
    operator = mt.WindowOperator(queries(), time="t", key="k", watermark=0, lateness=50)
    first = [(1, "a", 1.0, 1), (5, "a", 10.0, 5), (6, "b", 4.0, 2), (7, "b", 3.0, 9), (31, "a", 0.0, 21)]
    operator.process(batch(*first, (32, "b", 1.0, 22)))
    operator.process(batch((2, "a", 0.0, 3)))
    old = zlib.decompress(base64.b85decode(WITHOUT_LAST_SHOWN))
    for restored in (mt.WindowOperator.restore(old), mt.WindowOperator.restore(old, queries())):
        assert restored.metrics == operator.metrics
        later = mt.WindowOperator.restore(operator.snapshot())
        for more in (batch((3, "b", 0.0, 2), (60, "a", 9.0, 50)), batch((61, "b", 9.0, 50))):
            assert restored.process(more).equals(later.process(more))
        assert restored.finish().equals(later.finish())
